import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kerby.KOptions;
import org.apache.kerby.kerberos.kerb.client.KrbClient;
import org.apache.kerby.kerberos.kerb.client.KrbOption;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;
import org.apache.kerby.kerberos.kerb.type.ticket.TgtTicket;

/**
 * A Kerberos KDC on loopback (Apache Kerby), for one realm.
 *
 * <p>Arguments: realm, port, folder, the difference between clocks that it accepts, in seconds. It prints "ready", and then obeys
 * lines on stdin, each with a line on stdout:
 *
 * <pre>
 *   keytab PRINCIPAL FILE                   makes the principal if there is none, and writes its keys
 *   ticket PRINCIPAL KEYTAB CACHE SECONDS   what kinit does: writes a ticket into a cache
 * </pre>
 */
public final class Kdc {
    private Kdc() {}

    public static void main(String[] arguments) throws Exception {
        SimpleKdcServer kdc = new SimpleKdcServer();
        kdc.setKdcRealm(arguments[0]);
        kdc.setKdcHost("127.0.0.1");
        kdc.setAllowTcp(true);
        kdc.setAllowUdp(false);
        kdc.setKdcTcpPort(Integer.parseInt(arguments[1]));
        kdc.setWorkDir(new File(arguments[2]));
        kdc.getKdcConfig().setLong(KdcConfigKey.ALLOWABLE_CLOCKSKEW, Long.parseLong(arguments[3]));
        kdc.getKdcConfig().setLong(KdcConfigKey.MINIMUM_TICKET_LIFETIME, 1L);
        kdc.init();
        kdc.start();
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            obey(kdc, line.split(" "));
            System.out.println("done");
        }
        kdc.stop();
    }

    private static void obey(SimpleKdcServer kdc, String[] words) throws Exception {
        if (words[0].equals("keytab")) {
            if (kdc.getIdentityService().getIdentity(words[1]) == null) {
                kdc.createPrincipal(words[1]);
            }
            kdc.exportPrincipal(words[1], new File(words[2]));
            return;
        }
        KrbClient client = kdc.getKrbClient();
        KOptions options = new KOptions();
        options.add(KrbOption.CLIENT_PRINCIPAL, words[1]);
        options.add(KrbOption.USE_KEYTAB, true);
        options.add(KrbOption.KEYTAB_FILE, new File(words[2]));
        options.add(KrbOption.LIFE_TIME, Integer.parseInt(words[4]));
        TgtTicket ticket = client.requestTgt(options);
        client.storeTicket(ticket, new File(words[3]));
    }
}
