import java.util.Random;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.WindowedCount;

/** Wrote sampled_stats.txt, with Kafka 4.3: what its statistics make of values over time. */
public final class SampledStats {
    public static void main(String[] arguments) {
        int[][] configs = {{2, 30_000}, {3, 1_000}, {1, 500}, {5, 100}};
        for (int[] each : configs) {
            MetricConfig config = new MetricConfig().samples(each[0]).timeWindow(each[1], java.util.concurrent.TimeUnit.MILLISECONDS);
            System.out.printf("config %d %d%n", each[0], each[1]);
            Random random = new Random(each[1]);
            Avg avg = new Avg();
            Max max = new Max();
            Rate rate = new Rate();
            Rate counts = new Rate(new WindowedCount());
            long now = 1_000_000;
            for (int n = 0; n < 120; n++) {
                // Mostly within a window; now and then a pause that lets some or all of them end.
                int reach = n % 11 == 10 ? each[0] * each[1] * 2 : each[1] / 2;
                now += random.nextInt(reach);
                boolean records = n == 0 || random.nextInt(4) != 0;
                double value = random.nextInt(1000) - 200;
                if (records) {
                    avg.record(config, value, now);
                    max.record(config, value, now);
                    rate.record(config, value, now);
                    counts.record(config, value, now);
                }
                System.out.println(now - 1_000_000 + " " + (records ? value : "-")
                    + " " + avg.measure(config, now) + " " + max.measure(config, now)
                    + " " + rate.measure(config, now) + " " + counts.measure(config, now));
            }
        }
    }
}
