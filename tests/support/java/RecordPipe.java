import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client: produces files of records, or consumes a topic into one.
 * tests/support/records.py describes the format of a file.
 *
 * <p>RecordPipe produce BOOTSTRAP TOPIC CODEC FILE [CODEC FILE ...]; RecordPipe consume BOOTSTRAP
 * TOPIC FILE COUNT
 */
public final class RecordPipe {
    private static final int IDLE_LIMIT_MS = 60_000;

    private RecordPipe() {}

    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", arguments[1]);
        String topic = arguments[2];
        if (arguments[0].equals("consume")) {
            consume(config, topic, arguments[3], Long.parseLong(arguments[4]));
            return;
        }
        for (int i = 3; i < arguments.length; i += 2) {
            produce(config, topic, arguments[i + 1], arguments[i]);
        }
    }

    private static void produce(Properties config, String topic, String file, String codec) throws Exception {
        config.put("compression.type", codec);
        config.put("linger.ms", "5");
        config.put("max.request.size", "2000000");
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (DataInputStream input = new DataInputStream(new BufferedInputStream(new FileInputStream(file), 1 << 20));
                KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (ProducerRecord<byte[], byte[]> record = read(input, topic); record != null; record = read(input, topic)) {
                producer.send(record, (metadata, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    /** Returns the next record of the file, or null at its end. */
    private static ProducerRecord<byte[], byte[]> read(DataInputStream input, String topic) throws IOException {
        try {
            input.readInt();
        } catch (EOFException end) {
            return null;
        }
        int partition = input.readInt();
        input.readLong();
        long timestamp = input.readLong();
        byte[] key = readBytes(input);
        byte[] value = readBytes(input);
        List<Header> headers = new ArrayList<>();
        int count = input.readInt();
        for (int i = 0; i < count; i++) {
            String name = new String(readBytes(input), StandardCharsets.UTF_8);
            headers.add(new RecordHeader(name, readBytes(input)));
        }
        return new ProducerRecord<>(topic, partition, timestamp, key, value, headers);
    }

    private static byte[] readBytes(DataInputStream input) throws IOException {
        int length = input.readInt();
        return length < 0 ? null : input.readNBytes(length);
    }

    private static void consume(Properties config, String topic, String file, long count) throws Exception {
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        try (DataOutputStream output = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(file), 1 << 20));
                KafkaConsumer<byte[], byte[]> consumer =
                        new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long last = System.currentTimeMillis();
            for (long got = 0; got < count; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    write(output, record);
                    got++;
                    last = System.currentTimeMillis();
                }
                if (System.currentTimeMillis() - last > IDLE_LIMIT_MS) {
                    throw new IllegalStateException("no record for " + IDLE_LIMIT_MS + " ms, after " + got);
                }
            }
        }
    }

    private static void write(DataOutputStream output, ConsumerRecord<byte[], byte[]> record) throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        DataOutputStream fields = new DataOutputStream(body);
        fields.writeInt(record.partition());
        fields.writeLong(record.offset());
        fields.writeLong(record.timestamp());
        writeBytes(fields, record.key());
        writeBytes(fields, record.value());
        Header[] headers = record.headers().toArray();
        fields.writeInt(headers.length);
        for (Header header : headers) {
            writeBytes(fields, header.key().getBytes(StandardCharsets.UTF_8));
            writeBytes(fields, header.value());
        }
        output.writeInt(body.size());
        body.writeTo(output);
    }

    private static void writeBytes(DataOutputStream output, byte[] data) throws IOException {
        output.writeInt(data == null ? -1 : data.length);
        if (data != null) {
            output.write(data);
        }
    }
}
