import java.io.FileWriter;
import java.io.IOException;
import java.io.Writer;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Runs a member of a consumer group. tests/support/clients/member.py describes the file it writes.
 *
 * <p>GroupMember BOOTSTRAP TOPIC GROUP FILE STRATEGY SESSION NUMBER
 */
public final class GroupMember {
    private final Writer log;
    private final String number;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private volatile boolean ended;

    private GroupMember(String[] arguments) throws IOException {
        log = new FileWriter(arguments[3]);
        number = arguments[6];
        Properties config = new Properties();
        config.put("bootstrap.servers", arguments[0]);
        config.put("group.id", arguments[2]);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        if (arguments[4].equals("consumer")) {
            config.put("group.protocol", "consumer"); // refuses options of the classic protocol
        } else {
            boolean cooperative = arguments[4].equals("cooperative-sticky");
            config.put("session.timeout.ms", arguments[5]);
            config.put("heartbeat.interval.ms", "500");
            config.put("partition.assignment.strategy",
                    "org.apache.kafka.clients.consumer." + (cooperative ? "CooperativeStickyAssignor" : "RangeAssignor"));
        }
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) throws Exception {
        new GroupMember(arguments).run(arguments[1]);
    }

    private void run(String topic) throws Exception {
        Thread waiter = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException error) {
                // The input has ended in this case, too.
            }
            ended = true;
        });
        waiter.setDaemon(true);
        waiter.start();
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                write("V", "-1 " + numbers(partitions));
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                write("L", "-1 " + numbers(partitions));
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                write("A", consumer.groupMetadata().generationId() + " " + numbers(consumer.assignment()));
            }
        });
        while (!ended) {
            step();
        }
        write("X", "");
        consumer.close();
        write("E", "");
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(each -> Integer.toString(each.partition())).collect(Collectors.joining(" "));
    }

    private void step() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> batch = records.records(partition);
            long last = batch.get(batch.size() - 1).offset();
            write("R", partition.partition() + " " + batch.get(0).offset() + " " + last + " 0");
            offsets.put(partition, new OffsetAndMetadata(last + 1));
        }
        try {
            if (!offsets.isEmpty()) {
                consumer.commitSync(offsets);
            }
        } catch (KafkaException error) {
            return; // the group rebalances
        }
        offsets.forEach((where, at) -> write("C", where.partition() + " " + at.offset()));
    }

    private void write(String kind, String fields) {
        Instant now = Instant.now();
        long nanos = now.getEpochSecond() * 1_000_000_000L + now.getNano();
        try {
            log.write(nanos + " " + kind + " " + number + " " + fields + "\n");
            log.flush();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
