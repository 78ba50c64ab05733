import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/** Checks the lines of the example wire_cases, on standard input, with Kafka's own classes. */
public class RoundTrip {
    private static int failures = 0;
    private static final TreeMap<String, Integer> counts = new TreeMap<>();
    private static final Set<Short> keys = new TreeSet<>();

    public static void main(String[] args) throws Exception {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                check(line, line.split(" "));
            }
        }
        for (ApiMessageType type : ApiMessageType.values()) {
            boolean alive = type.lowestSupportedVersion() <= type.highestSupportedVersion(false);
            if (alive && !keys.contains(type.apiKey())) fail("API missing: " + type, null);
        }
        System.out.println("checked with Kafka's classes: " + counts + ", failures: " + failures);
        if (failures > 0 || counts.getOrDefault("same", 0) == 0) System.exit(1);
    }

    private static void check(String line, String[] w) {
        counts.merge(w[0], 1, Integer::sum);
        try {
            switch (w[0]) {
                case "api" -> api(Short.parseShort(w[1]), Short.parseShort(w[2]), Short.parseShort(w[3]));
                case "header" -> header(Short.parseShort(w[1]), Short.parseShort(w[2]), w[3] + " " + w[4]);
                case "same" -> same(w, Short.parseShort(w[3]), w[4]);
                case "default" -> expect(w, w[4], write(message(w), Short.parseShort(w[3])));
                case "cross" -> cross(w);
                default -> fail("unknown line", line);
            }
        } catch (Throwable e) {
            fail(e.toString(), line);
        }
    }

    private static void api(short key, short min, short max) {
        keys.add(key);
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        ApiKeys api = ApiKeys.forId(key);
        if (type.lowestSupportedVersion() != min || type.highestSupportedVersion(false) != max
                || api.latestVersion(false) != max) {
            fail("versions of " + type + ": Kafka says " + type.lowestSupportedVersion() + " to "
                + type.highestSupportedVersion(false), key + " " + min + " " + max);
        }
    }

    private static void header(short key, short version, String ours) {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        String kafka = type.requestHeaderVersion(version) + " " + type.responseHeaderVersion(version);
        if (!kafka.equals(ours)) fail("header versions of " + type + " " + version + ": " + kafka, ours);
    }

    private static void same(String[] w, short version, String hex) throws Exception {
        expect(w, hex, write(read(w, hex, version), version));
    }

    /** Checks a line of the form: cross KIND NAME FROM HEX TO HEX. */
    private static void cross(String[] w) throws Exception {
        Message message = read(w, w[4], Short.parseShort(w[3]));
        expect(w, w[6], write(message, Short.parseShort(w[5])));
    }

    private static Message message(String[] w) throws Exception {
        if (w[1].equals("data")) {
            String name = w[2].endsWith("Header") ? w[2] + "Data" : w[2];
            Class<?> type = Class.forName("org.apache.kafka.common.message." + name);
            return (Message) type.getDeclaredConstructor().newInstance();
        }
        ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(w[1]));
        return w[2].equals("request") ? type.newRequest() : type.newResponse();
    }

    private static Message read(String[] w, String hex, short version) throws Exception {
        byte[] bytes = hex.equals("-") ? new byte[0] : HexFormat.of().parseHex(hex);
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Message message = message(w);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) fail("bytes left over", String.join(" ", w));
        return message;
    }

    private static String write(Message message, short version) {
        try {
            ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return bytes.length == 0 ? "-" : HexFormat.of().formatHex(bytes);
        } catch (UnsupportedVersionException | NullPointerException e) {
            return "error";
        }
    }

    private static void expect(String[] w, String ours, String kafka) {
        if (!ours.equals(kafka)) fail("Kafka writes " + kafka, String.join(" ", w));
    }

    private static void fail(String what, String line) {
        failures++;
        if (failures <= 20) System.out.println(what + "\n  for: " + line);
    }
}
