import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs the Java client's transactions, or reads committed records with it. The steps are those of
 * tests/support/clients/transactions.py.
 *
 * Transactions write BOOTSTRAP TOPIC ID commit:3 abort:2 ... | read BOOTSTRAP TOPIC
 */
public final class Transactions {
    private static final String END = "end";

    private Transactions() {}

    public static void main(String[] arguments) {
        if (arguments[0].equals("write")) {
            write(arguments);
        } else {
            read(arguments[1], arguments[2]);
        }
    }

    private static void write(String[] arguments) {
        Properties options = new Properties();
        options.put("bootstrap.servers", arguments[1]);
        options.put("transactional.id", arguments[3]);
        options.put("compression.type", "zstd");
        String topic = arguments[2];
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(options, text, text)) {
            producer.initTransactions();
            int number = 0;
            for (int at = 4; at < arguments.length; at++) {
                String[] step = arguments[at].split(":");
                String end = step[0].split("-")[0];
                boolean hasOffset = step[0].contains("-");
                producer.beginTransaction();
                int count = hasOffset ? 1 : Integer.parseInt(step[1]);
                for (int index = 0; index < count; index++, number++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, end + "-" + number));
                }
                // An abort discards unsent records.
                producer.flush();
                if (hasOffset) {
                    long offset = Long.parseLong(step[2]);
                    producer.sendOffsetsToTransaction(
                            Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(offset)),
                            new ConsumerGroupMetadata(step[1]));
                }
                if (end.equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, END));
            producer.commitTransaction();
        }
    }

    private static void read(String bootstrap, String topic) {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        options.put("isolation.level", "read_committed");
        StringDeserializer text = new StringDeserializer();
        StringBuilder values = new StringBuilder();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(options, text, text)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (System.nanoTime() < limit) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.value().equals(END)) {
                        System.out.println("[" + values + "]");
                        return;
                    }
                    values.append(values.length() == 0 ? "\"" : ", \"");
                    values.append(record.value()).append('"');
                }
            }
        }
        throw new IllegalStateException("nothing more after " + values);
    }
}
