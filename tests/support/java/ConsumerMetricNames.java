import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints "group name" for every metric of a consumer that has read in a group and committed.
 *
 * <p>Arguments: bootstrap servers, topic (with records), group id.
 */
public final class ConsumerMetricNames {
  private ConsumerMetricNames() {}

  public static void main(String[] arguments) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", arguments[0]);
    properties.put("group.id", arguments[2]);
    properties.put("auto.offset.reset", "earliest");
    properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
    properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
      consumer.subscribe(List.of(arguments[1]));
      while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
        // Joins and waits for the first records.
      }
      consumer.commitSync();
      consumer
          .metrics()
          .keySet()
          .forEach(name -> System.out.println(name.group() + " " + name.name()));
    }
  }
}
