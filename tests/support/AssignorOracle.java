// Kafka's own assignors and hashes of topics, driven by a file of commands (see tests/unit/coordinator/group/assignors/scripts.py),
// one line of answer for each `assign` and each `hash`.
// Run with Kafka's jars on the class path: java -cp ... AssignorOracle.java COMMANDS ANSWERS

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

public class AssignorOracle {
    record Topic(String name, Uuid id, List<List<String>> racks) implements CoordinatorMetadataImage.TopicMetadata {
        public int partitionCount() { return racks.size(); }
        public List<String> partitionRacks(int partition) { return new ArrayList<>(racks.get(partition)); }
    }

    static class Topics implements CoordinatorMetadataImage {
        final Map<String, Topic> byName = new LinkedHashMap<>();
        final Map<Uuid, Topic> byId = new LinkedHashMap<>();
        public Set<Uuid> topicIds() { return byId.keySet(); }
        public Set<String> topicNames() { return byName.keySet(); }
        public Optional<TopicMetadata> topicMetadata(String name) { return Optional.ofNullable(byName.get(name)); }
        public Optional<TopicMetadata> topicMetadata(Uuid id) { return Optional.ofNullable(byId.get(id)); }
        public CoordinatorMetadataDelta emptyDelta() { return CoordinatorMetadataDelta.EMPTY; }
        public long version() { return 1; }
        public boolean isEmpty() { return byName.isEmpty(); }
    }

    record Member(String instanceId, Set<String> names) { }

    static Topics topics = new Topics();
    static Map<String, Member> members = new LinkedHashMap<>();
    static Map<String, Assignment> targets = new HashMap<>();
    static Map<String, PartitionAssignor> assignors =
        Map.of("range", new RangeAssignor(), "uniform", new UniformAssignor());

    public static void main(String[] arguments) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "new" -> {
                    topics = new Topics();
                    members = new LinkedHashMap<>();
                    targets = new HashMap<>();
                }
                case "topic" -> addTopic(words);
                case "member" -> members.put(words[1], new Member(
                    words[2].equals("-") ? null : words[2],
                    new HashSet<>(words.length < 4 ? List.of() : Arrays.asList(words[3].split(",")))));
                case "leave" -> {
                    members.remove(words[1]);
                    targets.remove(words[1]);
                }
                case "assign" -> answers.add(assign(assignors.get(words[1]), words[2].equals("same")));
                case "hash" -> answers.add(Long.toString(hash(words)));
                default -> throw new IllegalArgumentException(line);
            }
        }
        Files.write(Path.of(arguments[1]), answers);
    }

    static void addTopic(String[] words) {
        List<List<String>> racks = new ArrayList<>();
        for (int at = 3; at < words.length; at++)
            racks.add(words[at].equals("-") ? List.of() : Arrays.asList(words[at].split(",")));
        Topic topic = new Topic(words[1], Uuid.fromString(words[2]), racks);
        topics.byName.put(topic.name, topic);
        topics.byId.put(topic.id, topic);
    }

    static long hash(String[] words) {
        Map<String, Long> hashes = new HashMap<>();
        for (String name : Arrays.copyOfRange(words, 1, words.length))
            if (topics.byName.containsKey(name))
                hashes.put(name, Utils.computeTopicHash(name, topics));
        return Utils.computeGroupHash(hashes);
    }

    static String assign(PartitionAssignor assignor, boolean isHomogeneous) {
        TopicIds.TopicResolver resolver = new TopicIds.CachedTopicResolver(topics);
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        members.forEach((memberId, member) -> specs.put(memberId, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(),
            Optional.ofNullable(member.instanceId),
            new TopicIds(member.names, resolver),
            targets.getOrDefault(memberId, Assignment.EMPTY))));
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        targets.forEach((memberId, target) -> target.partitions().forEach((topicId, partitions) ->
            partitions.forEach(partition ->
                inverted.computeIfAbsent(topicId, __ -> new HashMap<>()).put(partition, memberId))));
        GroupAssignment result = assignor.assign(
            new GroupSpecImpl(
                Collections.unmodifiableMap(specs),
                isHomogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
                inverted),
            new SubscribedTopicDescriberImpl(topics));
        List<String> words = new ArrayList<>();
        for (String memberId : specs.keySet()) {
            MemberAssignment assignment = result.members().get(memberId);
            Map<Uuid, Set<Integer>> partitions = assignment == null ? Map.of() : assignment.partitions();
            ConsumerGroupTargetAssignmentMemberValue value = (ConsumerGroupTargetAssignmentMemberValue)
                GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("group", memberId, partitions)
                    .value().message();
            // Kafka writes a record only where the partitions have changed; the others stay as they were read.
            if (!new Assignment(partitions).equals(targets.get(memberId))) {
                targets.put(memberId, Assignment.fromRecord(value));
                words.add(memberId + "=" + hex(value));
            }
        }
        return String.join(" ", words);
    }

    static String hex(ConsumerGroupTargetAssignmentMemberValue value) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(value.size(cache, (short) 0));
        value.write(new ByteBufferAccessor(buffer), cache, (short) 0);
        return HexFormat.of().formatHex(buffer.array());
    }
}
