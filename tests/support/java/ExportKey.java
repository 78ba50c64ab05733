import java.io.FileInputStream;
import java.security.KeyStore;
import java.util.HexFormat;

/** Prints the private key of a PKCS12 store as hexadecimal PKCS8: ExportKey STORE PASSWORD ALIAS. */
public final class ExportKey {
    private ExportKey() {}

    public static void main(String[] arguments) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        char[] password = arguments[1].toCharArray();
        try (FileInputStream input = new FileInputStream(arguments[0])) {
            store.load(input, password);
        }
        System.out.println(HexFormat.of().formatHex(store.getKey(arguments[2], password).getEncoded()));
    }
}
