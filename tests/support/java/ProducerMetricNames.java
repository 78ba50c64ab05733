import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Prints "group name" for each metric of a producer that sent a record: SERVERS TOPIC. */
public final class ProducerMetricNames {
    private ProducerMetricNames() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> options = Map.of("bootstrap.servers", arguments[0]);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(options, bytes, bytes)) {
            producer.send(new ProducerRecord<>(arguments[1], new byte[10])).get();
            TreeSet<String> names = new TreeSet<>();
            for (MetricName name : producer.metrics().keySet()) {
                names.add(name.group() + " " + name.name());
            }
            names.forEach(System.out::println);
        }
    }
}
