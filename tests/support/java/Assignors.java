// Runs the Java consumer's assignors. Each line of stdin is a JSON object with a case, each line of
// stdout one with the result. Subscriptions are bytes, which are decoded like in a group's leader.
//
// in   {"assignor", "topics": {topic: [[rack or null of each replica] of each partition]},
//       "generation", "members": [[id, instance id or null, subscription in hex]]}
// out  {"assigned": {id: [[topic, partition]]},
//       "subscriptions": {id: hex}       encoded again, in the version of the input
//       "assignments": {id: [hex]}       in versions 0 to 3
//       "user_data": {id: hex or null}}  of a member with this assignment in the generation
//   or {"failed": the exception}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private Assignors() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(outcome(JSON.readTree(line)));
        }
        out.flush();
    }

    private static ObjectNode outcome(JsonNode given) {
        ObjectNode found = JSON.createObjectNode();
        try {
            Map<String, Subscription> members = members(given);
            writeAgain(given, members, found.putObject("subscriptions"));
            Map<String, Assignment> assigned = assignor(given)
                .assign(cluster(given.get("topics")), new GroupSubscription(members))
                .groupAssignment();
            describe(given, assigned, found);
        } catch (RuntimeException thrown) {
            found.put("failed", thrown.toString());
        }
        return found;
    }

    private static void writeAgain(
        JsonNode given, Map<String, Subscription> members, ObjectNode subscriptions) {
        for (JsonNode member : given.get("members")) {
            short version = ByteBuffer.wrap(HEX.parseHex(member.get(2).asText())).getShort();
            String id = member.get(0).asText();
            ByteBuffer bytes = ConsumerProtocol.serializeSubscription(members.get(id), version);
            subscriptions.put(id, hex(bytes));
        }
    }

    @SuppressWarnings("removal") // otherwise only a consumer can create this object
    private static void describe(JsonNode given, Map<String, Assignment> assigned, ObjectNode found) {
        ObjectNode partitions = found.putObject("assigned");
        ObjectNode assignments = found.putObject("assignments");
        ObjectNode userData = found.putObject("user_data");
        ConsumerGroupMetadata group =
            new ConsumerGroupMetadata("g", given.get("generation").asInt(), "m", Optional.empty());
        assigned.forEach((id, each) -> {
            ArrayNode rows = partitions.putArray(id);
            each.partitions().forEach(p -> rows.addArray().add(p.topic()).add(p.partition()));
            ArrayNode versions = assignments.putArray(id);
            for (short version = 0; version <= 3; version++) {
                versions.add(hex(ConsumerProtocol.serializeAssignment(each, version)));
            }
            ConsumerPartitionAssignor fresh = assignor(given);
            fresh.onAssignment(each, group);
            ByteBuffer data = fresh.subscriptionUserData(Set.of());
            userData.put(id, data == null ? null : hex(data));
        });
    }

    private static ConsumerPartitionAssignor assignor(JsonNode given) {
        String name = given.get("assignor").asText();
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** Returns the same kind of map, filled in the same order, as the leader's coordinator. */
    private static Map<String, Subscription> members(JsonNode given) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : given.get("members")) {
            ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(member.get(2).asText()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            subscription.setGroupInstanceId(
                member.get(1).isNull() ? Optional.empty() : Optional.of(member.get(1).asText()));
            members.put(member.get(0).asText(), subscription);
        }
        return members;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.properties().forEach(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    String name = rack.isNull() ? null : rack.asText();
                    replicas.add(nodes.computeIfAbsent(
                        rack.toString(), key -> new Node(nodes.size(), "host", 9092, name)));
                }
                Node[] array = replicas.toArray(new Node[0]);
                Node leader = array.length == 0 ? null : array[0];
                partitions.add(new PartitionInfo(topic.getKey(), number++, leader, array, array));
            }
        });
        return new Cluster("cluster", new HashSet<>(nodes.values()), partitions, Set.of(), Set.of());
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
