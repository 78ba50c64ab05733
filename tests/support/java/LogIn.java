import java.io.FileReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client logs in with the options of each file, sends a record to the topic with the name
 * of the file, and reads it as a member of a group: LogIn FILE [FILE ...]. It prints the name with
 * "ok", or with the classes of an error and of its causes.
 */
public final class LogIn {
    private LogIn() {}

    public static void main(String[] arguments) throws Exception {
        for (String argument : arguments) {
            Path file = Path.of(argument);
            Properties config = new Properties();
            try (FileReader reader = new FileReader(file.toFile())) {
                config.load(reader);
            }
            String topic = file.getFileName().toString();
            System.out.println(topic + " " + result(config, topic));
        }
    }

    private static String result(Properties config, String topic) {
        try {
            sendAndRead(config, topic);
            return "ok";
        } catch (Exception error) {
            StringBuilder names = new StringBuilder();
            for (Throwable each = error; each != null; each = each.getCause()) {
                names.append(each.getClass().getSimpleName()).append(' ');
            }
            return names.append(error).toString().replace('\n', ' ');
        }
    }

    private static void sendAndRead(Properties config, String topic) throws Exception {
        config.put("max.block.ms", "20000");
        config.put("group.id", topic);
        config.put("auto.offset.reset", "earliest");
        StringSerializer serializer = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, serializer, serializer)) {
            producer.send(new ProducerRecord<>(topic, topic)).get();
        }
        StringDeserializer deserializer = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, deserializer, deserializer)) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.value().equals(topic)) {
                        return;
                    }
                }
            }
        }
        throw new IllegalStateException("nothing read");
    }
}
