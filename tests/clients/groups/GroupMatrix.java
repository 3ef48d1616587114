// Scenarios of groups and transactions with Kafka's own Java clients. `GroupMatrix ADDRESS NAME SCENARIO...` runs each
// scenario and prints `ok SCENARIO`, or ends with what was not as it should be.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class GroupMatrix {
    static final Duration STEP = Duration.ofMillis(20);
    static final long PATIENCE_MS = 30_000;
    /** As many replicas as the cluster makes by default. */
    static final short DEFAULT = -1;
    static String address;
    static String prefix;
    static int count = 0;
    static Admin admin;

    static String fresh(String stem) {
        return prefix + "-" + stem + "-" + count++;
    }

    static void require(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static String create(String stem, int partitions) throws Exception {
        String topic = fresh(stem);
        admin.createTopics(List.of(new NewTopic(topic, partitions, DEFAULT))).all().get();
        return topic;
    }

    static Properties properties(Map<String, String> more) {
        Properties made = new Properties();
        made.put("bootstrap.servers", address);
        made.putAll(more);
        return made;
    }

    static KafkaProducer<String, String> producer(Map<String, String> more) {
        return new KafkaProducer<>(properties(more), new StringSerializer(), new StringSerializer());
    }

    static void send(String topic, int records, int partitions) throws Exception {
        try (var producer = producer(Map.of())) {
            for (int i = 0; i < records; i++) producer.send(new ProducerRecord<>(topic, i % partitions, null, "" + i));
        }
    }

    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final Set<TopicPartition> assigned = new HashSet<>();
        final List<ConsumerRecord<String, String>> records = new ArrayList<>();
        int changes = 0;
        int lost = 0;

        Member(String group, Map<String, String> more) {
            Map<String, String> all = new HashMap<>(Map.of("group.id", group, "auto.offset.reset", "earliest",
                "enable.auto.commit", "false", "metadata.max.age.ms", "500", "fetch.max.wait.ms", "100"));
            if (!"consumer".equals(more.get("group.protocol"))) {
                all.put("session.timeout.ms", "6000");
                all.put("heartbeat.interval.ms", "200");
            }
            all.putAll(more);
            consumer = new KafkaConsumer<>(properties(all), new StringDeserializer(), new StringDeserializer());
        }

        Member subscribe(String topic) {
            consumer.subscribe(List.of(topic), this);
            return this;
        }

        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) changes++;
            assigned.addAll(partitions);
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) changes++;
            assigned.removeAll(partitions);
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost++;
            assigned.removeAll(partitions);
        }

        void poll() {
            consumer.poll(STEP).forEach(records::add);
        }
    }

    static void until(String what, BooleanSupplier claim, Member... members) {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!claim.getAsBoolean()) {
            require(System.currentTimeMillis() < deadline, "not in time: " + what);
            for (Member one : members) one.poll();
        }
    }

    static boolean areEven(int partitions, Member... members) {
        int total = 0;
        for (Member one : members) {
            if (one.assigned.size() < partitions / members.length) return false;
            total += one.assigned.size();
        }
        return total == partitions;
    }

    static void share(Map<String, String> settings) throws Exception {
        String topic = create("shared", 6);
        String group = fresh("group");
        Member first = new Member(group, settings).subscribe(topic);
        until("one member has all", () -> areEven(6, first), first);
        Member second = new Member(group, settings).subscribe(topic);
        Member third = new Member(group, settings).subscribe(topic);
        until("three members share", () -> areEven(6, first, second, third), first, second, third);
        send(topic, 60, 6);
        until("all records come", () -> first.records.size() + second.records.size() + third.records.size() >= 60,
            first, second, third);
        Set<String> values = new TreeSet<>();
        for (Member one : List.of(first, second, third)) one.records.forEach(record -> values.add(record.value()));
        require(values.size() == 60, "there are " + values.size() + " values");
        ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        require(described.groupState() == GroupState.STABLE, "the group is " + described.groupState());
        require(described.members().size() == 3, "it has " + described.members().size() + " members");
        for (Member one : List.of(first, second, third)) one.consumer.commitSync();
        second.consumer.close();
        until("the two that stay share", () -> areEven(6, first, third), first, third);
        require(first.lost + third.lost == 0, "partitions were lost, not revoked");
        first.consumer.close();
        third.consumer.close();
        var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        require(offsets.size() == 6, "offsets of " + offsets.size() + " partitions");
        offsets.forEach((where, offset) -> require(offset.offset() == 10, where + " is at " + offset.offset()));
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    static void comesBack(Map<String, String> settings) throws Exception {
        String topic = create("static", 6);
        String group = fresh("group");
        Map<String, String> left = new HashMap<>(settings);
        left.put("group.instance.id", "left");
        Map<String, String> right = new HashMap<>(settings);
        right.put("group.instance.id", "right");
        Member first = new Member(group, left).subscribe(topic);
        Member other = new Member(group, right).subscribe(topic);
        until("both share", () -> areEven(6, first, other), first, other);
        Set<TopicPartition> had = new HashSet<>(first.assigned);
        int changes = other.changes;
        first.consumer.close();
        Member again = new Member(group, left).subscribe(topic);
        until("it has back what it had", () -> again.assigned.equals(had), again, other);
        require(other.changes == changes, "the other member was rebalanced");
        again.consumer.close();
        other.consumer.close();
    }

    static void pattern(boolean isRe2) throws Exception {
        String stem = fresh("pattern");
        admin.createTopics(List.of(new NewTopic(stem + "-a", 2, DEFAULT))).all().get();
        Member one = new Member(fresh("group"), Map.of("group.protocol", isRe2 ? "consumer" : "classic"));
        if (isRe2) one.consumer.subscribe(new SubscriptionPattern("^" + stem + "-.*"), one);
        else one.consumer.subscribe(Pattern.compile("^" + stem + "-.*"), one);
        until("the first topic", () -> one.assigned.size() == 2, one);
        admin.createTopics(List.of(new NewTopic(stem + "-b", 1, DEFAULT))).all().get();
        until("the second topic", () -> one.assigned.size() == 3, one);
        one.consumer.close();
    }

    static void migrate() throws Exception {
        // A group of classic members is upgraded, member by member, and downgraded again (KIP-848).
        String topic = create("migrated", 6);
        String group = fresh("group");
        Map<String, String> classic = Map.of("group.protocol", "classic");
        Map<String, String> consumer = Map.of("group.protocol", "consumer");
        Member old1 = new Member(group, classic).subscribe(topic);
        Member old2 = new Member(group, classic).subscribe(topic);
        until("classic members share", () -> areEven(6, old1, old2), old1, old2);
        Member new1 = new Member(group, consumer).subscribe(topic);
        until("old and new share", () -> areEven(6, old1, old2, new1), old1, old2, new1);
        old1.consumer.close();
        old2.consumer.close();
        Member new2 = new Member(group, consumer).subscribe(topic);
        until("new members share", () -> areEven(6, new1, new2), new1, new2);
        Member old3 = new Member(group, classic).subscribe(topic);
        until("an old one among new ones", () -> areEven(6, new1, new2, old3), new1, new2, old3);
        new1.consumer.close();
        new2.consumer.close();
        until("the old one has all", () -> areEven(6, old3), old3);
        old3.consumer.close();
    }

    static void transactions() throws Exception {
        String source = create("source", 1);
        String sink = create("sink", 1);
        String group = fresh("group");
        String id = fresh("txn");
        send(source, 10, 1);
        Member member = new Member(group, Map.of("group.protocol", "consumer")).subscribe(source);
        until("records come", () -> member.records.size() >= 10, member);
        TopicPartition where = new TopicPartition(source, 0);
        try (var producer = producer(Map.of("transactional.id", id))) {
            producer.initTransactions();
            for (int end : new int[] {4, 9}) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(sink, "up to " + end)).get();
                producer.sendOffsetsToTransaction(Map.of(where, new OffsetAndMetadata(end, "m")),
                    member.consumer.groupMetadata());
                TransactionDescription open = admin.describeTransactions(List.of(id)).all().get().get(id);
                require(open.state().toString().equals("Ongoing"), "it is " + open.state());
                if (end == 4) producer.commitTransaction();
                else producer.abortTransaction();
            }
            require(member.consumer.committed(Set.of(where)).get(where).offset() == 4, "not committed at 4");
            try (var successor = producer(Map.of("transactional.id", id))) {
                successor.initTransactions();
                producer.beginTransaction();
                try {
                    producer.send(new ProducerRecord<>(sink, "zombie")).get();
                    producer.commitTransaction();
                    throw new AssertionError("the zombie was not fenced");
                } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                } catch (java.util.concurrent.ExecutionException expected) {
                    require(expected.getCause() instanceof InvalidProducerEpochException
                        || expected.getCause() instanceof ProducerFencedException, "told " + expected.getCause());
                }
                successor.beginTransaction();
                successor.send(new ProducerRecord<>(sink, "successor"));
                successor.commitTransaction();
            }
        }
        member.consumer.close();
        Member reader = new Member(fresh("group"), Map.of("isolation.level", "read_committed")).subscribe(sink);
        until("what was committed comes", () -> reader.records.size() >= 2, reader);
        List<String> values = reader.records.stream().map(ConsumerRecord::value).toList();
        require(values.equals(List.of("up to 4", "successor")), "read " + values);
        reader.consumer.close();
        admin.fenceProducers(List.of(id)).all().get();
    }

    static void fenced() throws Exception {
        String topic = create("twins", 2);
        String group = fresh("group");
        Map<String, String> settings = Map.of("group.instance.id", "one");
        Member first = new Member(group, settings).subscribe(topic);
        until("the first has all", () -> areEven(2, first), first);
        Member twin = new Member(group, settings).subscribe(topic);
        until("the twin has all", () -> areEven(2, twin), twin);
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try {
            while (System.currentTimeMillis() < deadline) first.poll();
            throw new AssertionError("the first is not told");
        } catch (FencedInstanceIdException expected) {
        }
        first.consumer.close(Duration.ZERO);
        twin.consumer.close();
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        prefix = arguments[1];
        admin = Admin.create(properties(Map.of()));
        String assignor = "org.apache.kafka.clients.consumer.";
        for (int i = 2; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "range" -> share(Map.of("partition.assignment.strategy", assignor + "RangeAssignor"));
                case "cooperative" -> share(Map.of("partition.assignment.strategy", assignor + "CooperativeStickyAssignor"));
                case "consumer" -> share(Map.of("group.protocol", "consumer"));
                case "consumer-range" -> share(Map.of("group.protocol", "consumer", "group.remote.assignor", "range"));
                case "static" -> comesBack(Map.of());
                case "consumer-static" -> comesBack(Map.of("group.protocol", "consumer"));
                case "pattern" -> pattern(false);
                case "consumer-pattern" -> pattern(true);
                case "migrate" -> migrate();
                case "fenced" -> fenced();
                case "transactions" -> transactions();
                default -> throw new AssertionError("there is no scenario " + arguments[i]);
            }
            System.out.println("ok " + arguments[i]);
        }
        admin.close();
    }
}
