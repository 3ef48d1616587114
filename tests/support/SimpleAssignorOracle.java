import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/** Kafka's simple assignor, driven by lines of text; see tests/unit/coordinator/share/test_simple_assignor.py. */
public class SimpleAssignorOracle {
    record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }

    static class Topics implements CoordinatorMetadataImage {
        final Map<String, Topic> byName = new TreeMap<>();

        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        public Set<String> topicNames() {
            return byName.keySet();
        }

        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(byName.get(name));
        }

        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return byName.values().stream().filter(one -> one.id.equals(id)).map(one -> (TopicMetadata) one).findAny();
        }

        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        public long version() {
            return 1;
        }

        public boolean isEmpty() {
            return false;
        }
    }

    static Topics topics = new Topics();
    static Map<String, Set<String>> members = new HashMap<>();
    static Map<String, Assignment> targets = new HashMap<>();
    static Map<Uuid, Set<Integer>> allowed = new HashMap<>();

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            switch (words[0]) {
                case "new" -> {
                    topics = new Topics();
                    members.clear();
                    targets.clear();
                    allowed.clear();
                }
                case "topic" -> topics.byName.put(words[1],
                    new Topic(words[1], Uuid.fromString(words[2]), Integer.parseInt(words[3])));
                case "allow" -> allowed.put(Uuid.fromString(words[1]),
                    new HashSet<>(Arrays.stream(words[2].split(",")).map(Integer::valueOf).toList()));
                case "member" -> members.put(words[1], new HashSet<>(Arrays.asList(words[2].split(","))));
                case "leave" -> {
                    members.remove(words[1]);
                    targets.remove(words[1]);
                }
                default -> assign();
            }
        }
    }

    static void assign() {
        TopicIds.TopicResolver resolver = new TopicIds.CachedTopicResolver(topics);
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        members.forEach((memberId, names) -> specs.put(memberId, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(), Optional.empty(), new TopicIds(names, resolver),
            targets.getOrDefault(memberId, Assignment.EMPTY))));
        SubscriptionType type = new HashSet<>(members.values()).size() == 1
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment result = new SimpleAssignor().assign(
            new GroupSpecImpl(Collections.unmodifiableMap(specs), type, new HashMap<>(), Optional.of(allowed)),
            new SubscribedTopicDescriberImpl(topics));
        List<String> words = new ArrayList<>();
        for (String memberId : new TreeSet<>(specs.keySet())) {
            Map<Uuid, Set<Integer>> partitions = new HashMap<>(result.members().containsKey(memberId)
                ? result.members().get(memberId).partitions() : Map.of());
            partitions.values().removeIf(Set::isEmpty);
            // As it is read back from its record.
            Map<Uuid, Set<Integer>> read = new HashMap<>();
            partitions.forEach((topicId, some) -> read.put(topicId, new HashSet<>(new ArrayList<>(some))));
            targets.put(memberId, new Assignment(read));
            List<String> each = new ArrayList<>();
            partitions.forEach((topicId, some) -> each.add(
                topics.topicMetadata(topicId).get().name() + new TreeSet<>(some).toString().replace(" ", "")));
            Collections.sort(each);
            words.add(memberId + "=" + String.join("", each));
        }
        System.out.println(String.join(" ", words));
    }
}
