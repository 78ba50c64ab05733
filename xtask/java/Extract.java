import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.TreeMap;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints what xtask reads from the kafka-clients jar: {@code schema JAR} or {@code errors}. */
public class Extract {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "schema" -> schema(args[1]);
            case "errors" -> errors();
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    /** Prints every common/message/*.json, each after a line with its name. */
    private static void schema(String jar) throws Exception {
        TreeMap<String, String> files = new TreeMap<>();
        try (ZipFile zip = new ZipFile(jar)) {
            for (Enumeration<? extends ZipEntry> e = zip.entries(); e.hasMoreElements(); ) {
                ZipEntry entry = e.nextElement();
                String name = entry.getName();
                if (name.startsWith("common/message/") && name.endsWith(".json")) {
                    byte[] bytes = zip.getInputStream(entry).readAllBytes();
                    files.put(name, new String(bytes, StandardCharsets.UTF_8));
                }
            }
        }
        files.forEach((name, text) -> System.out.println("==> " + name + "\n" + text));
    }

    /** Prints a line for each error: code, name, families, exception class, message. */
    private static void errors() {
        for (Errors error : Errors.values()) {
            Throwable exception = error.exception();
            StringBuilder families = new StringBuilder();
            if (exception instanceof RetriableException) families.append(",retriable");
            if (exception instanceof InvalidMetadataException) families.append(",invalid-metadata");
            for (Class<?> c = exception == null ? null : exception.getClass(); c != null; c = c.getSuperclass()) {
                switch (c.getSimpleName()) {
                    case "RefreshRetriableException" -> families.append(",refresh");
                    case "ApplicationRecoverableException" -> families.append(",application-recoverable");
                    case "InvalidConfigurationException" -> families.append(",invalid-configuration");
                    default -> { }
                }
            }
            String className = exception == null ? "-" : exception.getClass().getSimpleName();
            String family = families.isEmpty() ? "-" : families.substring(1);
            System.out.println(String.join("\t", Short.toString(error.code()), error.name(), family,
                className, error.message().replace('\n', ' ').replace('\t', ' ')));
        }
    }
}
