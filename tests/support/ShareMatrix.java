import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiConsumer;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's share consumer and admin client against a broker: what it says goes for Kafka 4.3.1 too.
 *
 * Arguments: the broker's address, and the scenarios to run. Prints the name of each when it is through.
 * The broker's share heartbeats come every 300 ms, and records are locked for 1 s.
 */
public class ShareMatrix {
    static final long PATIENCE_MS = 20_000;
    static final long QUIET_MS = 700;
    static String address;
    static Admin admin;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        try (Admin opened = Admin.create(Map.of("bootstrap.servers", address))) {
            admin = opened;
            for (int at = 1; at < arguments.length; at++) {
                ShareMatrix.class.getDeclaredMethod(arguments[at]).invoke(null);
                System.out.println(arguments[at]);
            }
        }
    }

    // Scenarios

    /** Every record once, acknowledged by the next poll and by a commit. */
    static void implicit() throws Exception {
        prepare("implicit", 2, Map.of());
        produce("implicit", 2, 200);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("implicit", Map.of())) {
            poll(consumer, tally, 200, (record, same) -> { });
            consumer.commitSync();
        }
        check(tally.deliveries(1) == 200, "each record is delivered once: " + tally);
        try (ShareConsumer<String, String> consumer = consumer("implicit", Map.of())) {
            Tally again = quiet(consumer);
            check(again.isEmpty(), "what was acknowledged does not come back: " + again);
        }
        var offsets = admin.listShareGroupOffsets(Map.of("implicit", new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo("implicit").get();
        for (int partition = 0; partition < 2; partition++) {
            check(offsets.get(new TopicPartition("implicit", partition)).lag().get() == 0, "no lag is left: " + offsets);
        }
    }

    /** Released records come back with a higher count, rejected ones do not. */
    static void explicit() throws Exception {
        prepare("explicit", 1, Map.of());
        produce("explicit", 1, 30);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("explicit", EXPLICIT)) {
            poll(consumer, tally, 40, (record, same) -> {
                int number = Integer.parseInt(record.value());
                boolean isFirst = record.deliveryCount().get() == 1;
                same.acknowledge(record, number % 3 == 1 ? AcknowledgeType.REJECT
                    : number % 3 == 2 && isFirst ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
            });
            Tally after = quiet(consumer);
            check(after.isEmpty(), "nothing is left: " + after);
        }
        check(tally.deliveries(1) == 30 && tally.deliveries(2) == 10, "a third is delivered twice: " + tally);
    }

    /** Two members of a group share one partition. */
    static void together() throws Exception {
        prepare("together", 1, Map.of("share.record.lock.duration.ms", "15000"));
        Tally first = new Tally();
        Tally second = new Tally();
        try (ShareConsumer<String, String> one = consumer("together", Map.of("max.poll.records", "5"));
             ShareConsumer<String, String> other = consumer("together", Map.of("max.poll.records", "5"))) {
            one.poll(Duration.ofMillis(QUIET_MS));
            other.poll(Duration.ofMillis(QUIET_MS));
            for (int round = 0; round < 40; round++) {
                produce("together", 1, round * 5, 5);
            }
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (first.size() + second.size() < 200 && System.currentTimeMillis() < deadline) {
                one.poll(Duration.ofMillis(50)).forEach(first::add);
                other.poll(Duration.ofMillis(50)).forEach(second::add);
            }
            one.commitSync();
            other.commitSync();
        }
        check(first.deliveries(1) + second.deliveries(1) == 200, "each record once: " + first + second);
        check(!first.isEmpty() && !second.isEmpty(), "both have a share: " + first.size() + " and " + second.size());
    }

    /** What a member keeps for too long goes to another. */
    static void timeouts() throws Exception {
        prepare("timeouts", 1, Map.of());
        produce("timeouts", 1, 10);
        Tally kept = new Tally();
        Tally taken = new Tally();
        try (ShareConsumer<String, String> lazy = consumer("timeouts", EXPLICIT);
             ShareConsumer<String, String> eager = consumer("timeouts", EXPLICIT)) {
            poll(lazy, kept, 10, (record, same) -> { });
            poll(eager, taken, 10, (record, same) -> same.acknowledge(record, AcknowledgeType.ACCEPT));
            eager.commitSync();
        }
        check(kept.deliveries(1) == 10 && taken.deliveries(2) == 10, "all change hands: " + kept + taken);
    }

    /** A record that nobody takes is given up after so many deliveries. */
    static void limit() throws Exception {
        prepare("limit", 1, Map.of("share.delivery.count.limit", "3"));
        produce("limit", 1, 4);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("limit", EXPLICIT)) {
            poll(consumer, tally, 12, (record, same) -> same.acknowledge(record, AcknowledgeType.RELEASE));
            Tally after = quiet(consumer);
            check(after.isEmpty(), "it is over after three deliveries: " + after);
        }
        for (int count = 1; count <= 3; count++) {
            check(tally.deliveries(count) == 4, "each record three times: " + tally);
        }
    }

    /** A member that needs more time asks for it. */
    static void renewal() throws Exception {
        prepare("renewal", 1, Map.of());
        produce("renewal", 1, 3);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("renewal", EXPLICIT)) {
            List<ConsumerRecord<String, String>> held = new ArrayList<>();
            poll(consumer, tally, 3, (record, same) -> held.add(record));
            for (int round = 0; round < 4; round++) {
                held.forEach(record -> consumer.acknowledge(record, AcknowledgeType.RENEW));
                consumer.commitSync();
                Thread.sleep(600);
                consumer.poll(Duration.ofMillis(10));
            }
            held.forEach(record -> consumer.acknowledge(record, AcknowledgeType.ACCEPT));
            consumer.commitSync().forEach((partition, error) -> check(error.isEmpty(), partition + ": " + error));
            Tally after = quiet(consumer);
            check(after.isEmpty(), "they were its own all along: " + after);
        }
    }

    /** With `record_limit` a poll brings no more than was asked for, whatever the batches are. */
    static void recordLimit() throws Exception {
        prepare("recordLimit", 1, Map.of());
        produce("recordLimit", 1, 57);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("recordLimit",
                 Map.of("share.acquire.mode", "record_limit", "max.poll.records", "10"))) {
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (tally.size() < 57 && System.currentTimeMillis() < deadline) {
                var records = consumer.poll(Duration.ofMillis(200));
                check(records.count() <= 10, "a poll brought " + records.count());
                records.forEach(tally::add);
            }
        }
        check(tally.deliveries(1) == 57, "each record once: " + tally);
    }

    /** A group that reads committed records is not given those of aborted transactions. */
    static void committed() throws Exception {
        prepare("committed", 1, Map.of("share.isolation.level", "read_committed"));
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", address));
        settings.put("transactional.id", "share-matrix");
        try (Producer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int number = 0; number < 9; number++) {
                producer.beginTransaction();
                for (int copy = 0; copy < 3; copy++) {
                    producer.send(new ProducerRecord<>("committed", 0, null, number + "." + copy)).get();
                }
                if (number % 3 == 1) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("committed", Map.of())) {
            poll(consumer, tally, 18, (record, same) -> { });
            Tally after = quiet(consumer);
            check(after.isEmpty(), "the rest was aborted: " + after);
        }
        check(tally.values().stream().noneMatch(value -> Integer.parseInt(value.split("\\.")[0]) % 3 == 1),
            "no aborted record: " + tally);
    }

    /** A group that is left by all can be sent elsewhere, forget topics, and go. */
    static void offsets() throws Exception {
        prepare("offsets", 1, Map.of());
        produce("offsets", 1, 20);
        TopicPartition partition = new TopicPartition("offsets", 0);
        try (ShareConsumer<String, String> consumer = consumer("offsets", Map.of())) {
            poll(consumer, new Tally(), 20, (record, same) -> { });
        }
        admin.alterShareGroupOffsets("offsets", Map.of(partition, 15L)).all().get();
        var found = admin.listShareGroupOffsets(Map.of("offsets", new ListShareGroupOffsetsSpec()));
        var told = found.partitionsToOffsetInfo("offsets").get().get(partition);
        check(told.startOffset() == 15 && told.lag().get() == 5, "it begins elsewhere: " + told);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("offsets", Map.of())) {
            poll(consumer, tally, 5, (record, same) -> { });
        }
        check(tally.values().equals(new TreeSet<>(Set.of("15", "16", "17", "18", "19"))), "from there on: " + tally);
        admin.deleteShareGroupOffsets("offsets", Set.of("offsets")).all().get();
        check(admin.listShareGroupOffsets(Map.of("offsets", new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo("offsets").get().isEmpty(), "it has forgotten the topic");
        check(admin.describeShareGroups(List.of("offsets")).all().get().get("offsets").groupState() == GroupState.EMPTY,
            "it is empty");
        admin.deleteShareGroups(List.of("offsets")).all().get();
        check(admin.listGroups().all().get().stream().noneMatch(group -> group.groupId().equals("offsets")), "it is gone");
    }

    /** Records that are deleted from the log are not waited for. */
    static void deletion() throws Exception {
        prepare("deletion", 1, Map.of());
        produce("deletion", 1, 10);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("deletion", EXPLICIT)) {
            poll(consumer, tally, 10, (record, same) -> same.acknowledge(record, AcknowledgeType.RELEASE));
            consumer.commitSync();
            produce("deletion", 1, 10, 10);
            admin.deleteRecords(Map.of(new TopicPartition("deletion", 0), RecordsToDelete.beforeOffset(8))).all().get();
            Tally rest = new Tally();
            poll(consumer, rest, 12, (record, same) -> same.acknowledge(record, AcknowledgeType.ACCEPT));
            consumer.commitSync();
            check(rest.deliveries(1) == 10, "what is new comes: " + rest);
        }
    }

    /** What was begun before a restart goes on after it: the first half. */
    static void before() throws Exception {
        prepare("restart", 1, Map.of());
        produce("restart", 1, 30);
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("restart", EXPLICIT)) {
            poll(consumer, tally, 30, (record, same) -> {
                int number = Integer.parseInt(record.value());
                same.acknowledge(record, number % 2 == 0 ? AcknowledgeType.ACCEPT
                    : number % 3 == 0 ? AcknowledgeType.REJECT : AcknowledgeType.RELEASE);
            });
            consumer.commitSync().forEach((partition, error) -> check(error.isEmpty(), partition + ": " + error));
        }
        check(tally.size() == 30, "all of them: " + tally);
    }

    /** The second half. */
    static void after() throws Exception {
        Tally tally = new Tally();
        try (ShareConsumer<String, String> consumer = consumer("restart", Map.of())) {
            poll(consumer, tally, 10, (record, same) -> { });
            Tally more = quiet(consumer);
            check(more.isEmpty(), "nothing else is left: " + more);
        }
        // The member before may have fetched them once more before it closed.
        check(tally.deliveries(1) == 0 && tally.values().size() == 10,
            "what was released comes back, and it is known that it was delivered before: " + tally);
    }

    // Means

    static final Map<String, Object> EXPLICIT = Map.of("share.acknowledgement.mode", "explicit");

    /** A topic, and a group of the same name that reads it from the beginning. */
    static void prepare(String name, int partitions, Map<String, String> more) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) -1))).all().get();
        Map<String, String> settings = new TreeMap<>(more);
        settings.put("share.auto.offset.reset", "earliest");
        List<AlterConfigOp> changes = settings.entrySet().stream()
            .map(one -> new AlterConfigOp(new ConfigEntry(one.getKey(), one.getValue()), AlterConfigOp.OpType.SET)).toList();
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, name), changes)).all().get();
    }

    static void produce(String topic, int partitions, int count) throws Exception {
        produce(topic, partitions, 0, count);
    }

    static void produce(String topic, int partitions, int first, int count) throws Exception {
        try (Producer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", address), new StringSerializer(), new StringSerializer())) {
            for (int number = first; number < first + count; number++) {
                producer.send(new ProducerRecord<>(topic, number % partitions, null, String.valueOf(number)));
            }
        }
    }

    static ShareConsumer<String, String> consumer(String group, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", address);
        settings.put("group.id", group);
        ShareConsumer<String, String> consumer =
            new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(group));
        return consumer;
    }

    /** Poll until so many deliveries were seen, doing something about each. */
    static void poll(ShareConsumer<String, String> consumer, Tally tally, int count,
                     BiConsumer<ConsumerRecord<String, String>, ShareConsumer<String, String>> each) {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (tally.size() < count && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                tally.add(record);
                each.accept(record, consumer);
            }
        }
        check(tally.size() >= count, "only " + tally.size() + " of " + count + " deliveries: " + tally);
    }

    /** What comes within a while in which nothing should. */
    static Tally quiet(ShareConsumer<String, String> consumer) {
        Tally tally = new Tally();
        long deadline = System.currentTimeMillis() + QUIET_MS;
        while (System.currentTimeMillis() < deadline) {
            consumer.poll(Duration.ofMillis(100)).forEach(tally::add);
        }
        return tally;
    }

    static void check(boolean isTrue, String message) {
        if (!isTrue) {
            throw new AssertionError(message);
        }
    }

    /** Deliveries, as record and count. */
    static class Tally {
        private final Map<Integer, List<String>> byCount = new TreeMap<>();

        void add(ConsumerRecord<String, String> record) {
            byCount.computeIfAbsent((int) record.deliveryCount().get(), count -> new ArrayList<>()).add(record.value());
        }

        int size() {
            return byCount.values().stream().mapToInt(List::size).sum();
        }

        boolean isEmpty() {
            return byCount.isEmpty();
        }

        Set<String> values() {
            Set<String> found = new TreeSet<>();
            byCount.values().forEach(found::addAll);
            return found;
        }

        /** How many different records were delivered for that time; -1 when one was twice. */
        int deliveries(int count) {
            List<String> found = byCount.getOrDefault(count, List.of());
            return new TreeSet<>(found).size() == found.size() ? found.size() : -1;
        }

        @Override
        public String toString() {
            return byCount.toString();
        }
    }
}
