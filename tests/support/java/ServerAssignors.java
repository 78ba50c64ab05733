import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Runs the broker's own assignors. Each line of input is a group. Each line of output is its result.
 *
 * <p>Input: assignor;topic=partitions,...;member/instance/topic+topic/topic:partition+...,...
 * Output: member/topic:partition+...,... Topics are numbers. Instances may be empty.
 */
public final class ServerAssignors {
    private ServerAssignors() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(line.split(";", -1)));
        }
    }

    private static Uuid id(String topic) {
        return new Uuid(1, Long.parseLong(topic));
    }

    private static String answer(String[] parts) throws Exception {
        Map<Uuid, Integer> topics = new HashMap<>();
        for (String each : parts[1].split(",")) {
            String[] pair = each.split("=");
            topics.put(id(pair[0]), Integer.parseInt(pair[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (String each : parts[2].split(",")) {
            String[] fields = each.split("/", -1);
            Set<Uuid> subscribed = new HashSet<>();
            for (String topic : fields[2].split("\\+")) {
                subscribed.add(id(topic));
            }
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            for (String partition : fields[3].isEmpty() ? new String[0] : fields[3].split("\\+")) {
                String[] pair = partition.split(":");
                int number = Integer.parseInt(pair[1]);
                owned.computeIfAbsent(id(pair[0]), key -> new HashSet<>()).add(number);
                owners.computeIfAbsent(id(pair[0]), key -> new HashMap<>()).put(number, fields[0]);
            }
            subscriptions.add(subscribed);
            Optional<String> instance =
                fields[1].isEmpty() ? Optional.empty() : Optional.of(fields[1]);
            members.put(
                fields[0],
                new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), instance, subscribed, new Assignment(owned)));
        }
        SubscriptionType kind = subscriptions.size() == 1
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
            parts[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment found =
            assignor.assign(new GroupSpecImpl(members, kind, owners), new Described(topics));
        List<String> rows = new ArrayList<>();
        new TreeMap<>(found.members()).forEach((member, assignment) -> {
            Set<String> partitions = new TreeSet<>();
            assignment.partitions().forEach((topic, numbers) -> numbers.forEach(
                number -> partitions.add(topic.getLeastSignificantBits() + ":" + number)));
            rows.add(member + "/" + String.join("+", partitions));
        });
        return String.join(",", rows);
    }

    private record Described(Map<Uuid, Integer> topics) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return topics.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
