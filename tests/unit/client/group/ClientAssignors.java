// Kafka's own client-side assignors, driven by a file of commands (see assignor_scripts.py), one line of answer for
// each `assign` and each `data`.
// Run with Kafka's jars on the class path: java -cp ... ClientAssignors.java COMMANDS ANSWERS

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;

import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.*;

public class ClientAssignors {
    static Map<Integer, Node> nodes = new LinkedHashMap<>();
    static List<PartitionInfo> partitions = new ArrayList<>();
    static Map<String, Subscription> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "new" -> {
                    nodes = new LinkedHashMap<>();
                    partitions = new ArrayList<>();
                    members = new HashMap<>();
                }
                case "node" -> nodes.put(Integer.valueOf(words[1]),
                    new Node(Integer.parseInt(words[1]), "h", 1, words[2].equals("-") ? null : words[2]));
                case "topic" -> addTopic(words);
                case "member" -> members.put(words[1], subscription(words));
                case "assign" -> answers.add(assign(words[1]));
                default -> throw new IllegalArgumentException(line);
            }
        }
        Files.write(Path.of(arguments[1]), answers);
    }

    // topic NAME REPLICAS,OF,EACH:PARTITION with replicas as 1.2.3
    static void addTopic(String[] words) {
        String[] each = words[2].split(",");
        for (int index = 0; index < each.length; index++) {
            Node[] replicas = Arrays.stream(each[index].split("\\.")).map(Integer::valueOf).map(nodes::get)
                .toArray(Node[]::new);
            partitions.add(new PartitionInfo(words[1], index, replicas[0], replicas, replicas));
        }
    }

    // member ID INSTANCE RACK GENERATION TOPICS OWNED STICKY-USER-DATA: `-` is nothing
    static Subscription subscription(String[] words) {
        List<TopicPartition> owned = new ArrayList<>();
        if (!words[6].equals("-"))
            for (String one : words[6].split(",")) {
                int dash = one.lastIndexOf('-');
                owned.add(new TopicPartition(one.substring(0, dash), Integer.parseInt(one.substring(dash + 1))));
            }
        ByteBuffer data = words[7].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(words[7]));
        Subscription found = new Subscription(Arrays.asList(words[5].split(",")), data, owned,
            Integer.parseInt(words[4]), words[3].equals("-") ? Optional.empty() : Optional.of(words[3]));
        // Through bytes and back, as it travels.
        Subscription read = ConsumerProtocol.deserializeSubscription(ConsumerProtocol.serializeSubscription(found));
        read.setGroupInstanceId(words[2].equals("-") ? Optional.empty() : Optional.of(words[2]));
        return read;
    }

    static String assign(String name) {
        ConsumerPartitionAssignor assignor = switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
        for (Subscription one : members.values())
            if (one.userData() != null)
                one.userData().rewind();
        Cluster cluster = new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
        Map<String, Assignment> found;
        try {
            found = assignor.assign(cluster, new GroupSubscription(members)).groupAssignment();
        } catch (NullPointerException error) {
            return "fails";
        }
        StringBuilder answer = new StringBuilder();
        for (String member : new TreeSet<>(found.keySet())) {
            List<String> texts = new ArrayList<>();
            for (TopicPartition one : found.get(member).partitions())
                texts.add(one.toString());
            Collections.sort(texts);
            answer.append(answer.length() > 0 ? " " : "").append(member).append("=").append(String.join(",", texts));
        }
        return answer.toString();
    }
}
