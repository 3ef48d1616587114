import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/** Kafka's Java clients against the cluster of args[1] nodes at args[0]: prints one line for each thing that worked, fails at the first that did not. */
public class ClientMatrix {
    static final Duration LONG = Duration.ofSeconds(20);
    static Admin admin;
    static String address;
    static int nodeCount;

    public static void main(String[] args) throws Exception {
        address = args[0];
        nodeCount = Integer.parseInt(args[1]);
        admin = Admin.create(Map.of("bootstrap.servers", address));
        topics();
        codecs();
        fields();
        positions();
        sizes();
        settings();
        cluster();
        admin.close(LONG);
    }

    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(String.valueOf(what));
    }

    static void refused(Class<? extends Throwable> error, KafkaFuture<?> future) throws Exception {
        try {
            future.get();
        } catch (ExecutionException e) {
            check(error.isInstance(e.getCause()), "expected " + error.getName() + ", got " + e.getCause());
            return;
        }
        throw new AssertionError("expected " + error.getName());
    }

    static void create(String topic, int partitions, Map<String, String> config) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) -1).configs(config))).all().get();
        // Leaders are asked: what is sent with acks=0 to one that does not know the topic yet is lost.
        for (int partition = 0; partition < partitions; partition++) {
            var where = new TopicPartition(topic, partition);
            eventually(() -> admin.listOffsets(Map.of(where, OffsetSpec.latest())).all().get().containsKey(where), topic + " is known");
        }
        eventually(() -> admin.describeTopics(List.of(topic)).allTopicNames().get().containsKey(topic), topic + " is known");
    }

    /** With several brokers a change is answered by one, and the others hear of it a moment later. */
    static void eventually(Callable<Boolean> claim, String what) throws Exception {
        for (long deadline = System.currentTimeMillis() + 20_000; ; Thread.sleep(20)) {
            try {
                if (claim.call()) return;
            } catch (ExecutionException e) {
                check(e.getCause() instanceof UnknownTopicOrPartitionException, e.getCause());
            }
            check(System.currentTimeMillis() < deadline, what);
        }
    }

    static Producer<byte[], byte[]> producer(Map<String, Object> config) {
        Map<String, Object> all = new HashMap<>(config);
        all.put("bootstrap.servers", address);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Consumer<byte[], byte[]> consumer(Map<String, Object> config) {
        Map<String, Object> all = new HashMap<>(config);
        all.put("bootstrap.servers", address);
        all.putIfAbsent("auto.offset.reset", "none");
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static List<ConsumerRecord<byte[], byte[]>> read(Consumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long deadline = System.currentTimeMillis() + 20_000;
        while (records.size() < count) {
            check(System.currentTimeMillis() < deadline, records.size() + " of " + count + " records");
            consumer.poll(Duration.ofMillis(500)).forEach(records::add);
        }
        return records;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void topics() throws Exception {
        create("j-topic", 2, Map.of("retention.ms", "60000"));
        TopicDescription described = admin.describeTopics(List.of("j-topic")).allTopicNames().get().get("j-topic");
        check(described.partitions().size() == 2, described);
        for (var partition : described.partitions()) {
            check(partition.replicas().size() == Math.min(3, nodeCount), described);
            check(partition.leader().equals(partition.replicas().get(0)), described);
        }
        Uuid id = described.topicId();
        check(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id).name().equals("j-topic"), id);
        admin.createPartitions(Map.of("j-topic", NewPartitions.increaseTo(3))).all().get();
        eventually(() -> admin.describeTopics(List.of("j-topic")).allTopicNames().get().get("j-topic").partitions().size() == 3, "3 partitions");
        refused(TopicExistsException.class, admin.createTopics(List.of(new NewTopic("j-topic", 1, (short) 1))).all());
        refused(InvalidTopicException.class, admin.createTopics(List.of(new NewTopic("j topic", 1, (short) 1))).all());
        refused(InvalidConfigurationException.class,
            admin.createTopics(List.of(new NewTopic("j-c", 1, (short) 1).configs(Map.of("retention.ms", "x")))).all());
        refused(InvalidReplicationFactorException.class, admin.createTopics(List.of(new NewTopic("j-r", 1, (short) (nodeCount + 1)))).all());
        refused(UnknownTopicOrPartitionException.class, admin.describeTopics(List.of("j-unknown")).allTopicNames());
        admin.createTopics(List.of(new NewTopic("j-valid", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all().get();
        check(!admin.listTopics().names().get().contains("j-valid"), "validateOnly");
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        eventually(() -> !admin.listTopics().names().get().contains("j-topic"), "deleted");
        System.out.println("topics");
    }

    static void codecs() throws Exception {
        for (String acks : List.of("0", "1", "all")) {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                String topic = "j-" + codec + "-" + acks;
                create(topic, 1, Map.of());
                try (var producer = producer(Map.of("compression.type", codec, "acks", acks, "linger.ms", 20,
                        "enable.idempotence", acks.equals("all")))) {
                    for (int i = 0; i < 100; i++) producer.send(new ProducerRecord<>(topic, bytes("k" + i), bytes("v".repeat(100) + i)));
                }
                try (var consumer = consumer(Map.of())) {
                    var where = new TopicPartition(topic, 0);
                    consumer.assign(List.of(where));
                    consumer.seekToBeginning(List.of(where));
                    var records = read(consumer, 100);
                    for (int i = 0; i < 100; i++) {
                        check(records.get(i).offset() == i, records.get(i));
                        check(Arrays.equals(records.get(i).value(), bytes("v".repeat(100) + i)), records.get(i));
                    }
                }
            }
        }
        System.out.println("codecs");
    }

    static void fields() throws Exception {
        create("j-fields", 1, Map.of());
        try (var producer = producer(Map.of())) {
            var record = new ProducerRecord<>("j-fields", 0, System.currentTimeMillis() - 5000, bytes("k"), (byte[]) null);
            record.headers().add("a", bytes("1")).add("a", bytes("2")).add("none", null);
            check(producer.send(record).get().offset() == 0, "the first offset");
        }
        try (var consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(new TopicPartition("j-fields", 0)));
            consumer.seek(new TopicPartition("j-fields", 0), 0);
            var record = read(consumer, 1).get(0);
            check(record.value() == null && Arrays.equals(record.key(), bytes("k")), record);
            check(record.headers().toArray().length == 3 && record.headers().lastHeader("none").value() == null, record.headers());
            check(record.leaderEpoch().get() == 0, record);
        }
        System.out.println("fields");
    }

    static void positions() throws Exception {
        create("j-where", 1, Map.of("message.timestamp.type", "CreateTime"));
        var where = new TopicPartition("j-where", 0);
        long base = System.currentTimeMillis() - 100_000;
        try (var producer = producer(Map.of()); var consumer = consumer(Map.of("auto.offset.reset", "latest"))) {
            for (int i = 0; i < 50; i++) producer.send(new ProducerRecord<>("j-where", 0, base + i * 1000, null, bytes("" + i))).get();
            check(consumer.beginningOffsets(List.of(where)).get(where) == 0, "beginning");
            check(consumer.endOffsets(List.of(where)).get(where) == 50, "end");
            var at = consumer.offsetsForTimes(Map.of(where, base + 20_500)).get(where);
            check(at.offset() == 21 && at.timestamp() == base + 21_000, at);
            consumer.assign(List.of(where));
            consumer.seek(where, at.offset());
            check(read(consumer, 1).get(0).offset() == 21, "by time");
            consumer.seek(where, 5);
            check(read(consumer, 1).get(0).offset() == 5, "by offset");
            consumer.seek(where, 500);
            consumer.poll(Duration.ofSeconds(1));
            check(consumer.position(where) == 50, "out of range goes to the end: " + consumer.position(where));
            producer.send(new ProducerRecord<>("j-where", 0, null, null, bytes("new"))).get();
            check(read(consumer, 1).get(0).offset() == 50, "from the end on");
        }
        Map<OffsetSpec, Long> specs = new LinkedHashMap<>();
        specs.put(OffsetSpec.earliest(), 0L);
        specs.put(OffsetSpec.latest(), 51L);
        specs.put(OffsetSpec.maxTimestamp(), 50L);
        specs.put(OffsetSpec.forTimestamp(base + 1), 1L);
        specs.put(OffsetSpec.earliestLocal(), 0L);
        specs.put(OffsetSpec.latestTiered(), -1L);
        for (var entry : specs.entrySet()) {
            long offset = admin.listOffsets(Map.of(where, entry.getKey())).all().get().get(where).offset();
            check(offset == entry.getValue(), entry.getKey() + " is " + offset);
        }
        check(admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(10))).lowWatermarks().get(where).get().lowWatermark() == 10, "trim");
        refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(100))).all());
        var producers = admin.describeProducers(List.of(where)).all().get().get(where).activeProducers();
        check(producers.size() == 1 && producers.get(0).lastSequence() == 50, producers);
        System.out.println("positions");
    }

    static void sizes() throws Exception {
        create("j-large", 1, Map.of("max.message.bytes", "12000000"));
        create("j-small", 1, Map.of());
        byte[] large = new byte[10_000_000];
        new Random(1).nextBytes(large);
        try (var producer = producer(Map.of("max.request.size", 20_000_000)); var consumer = consumer(Map.of())) {
            producer.send(new ProducerRecord<>("j-large", large)).get();
            consumer.assign(List.of(new TopicPartition("j-large", 0)));
            consumer.seek(new TopicPartition("j-large", 0), 0);
            check(Arrays.equals(read(consumer, 1).get(0).value(), large), "ten megabytes");
            try {
                producer.send(new ProducerRecord<>("j-small", large)).get();
                throw new AssertionError("too large, and taken");
            } catch (ExecutionException e) {
                check(e.getCause() instanceof RecordTooLargeException, e.getCause());
            }
            producer.send(new ProducerRecord<>("j-made-by-producing", bytes("x"))).get();
        }
        System.out.println("sizes");
    }

    static String setting(ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    static void alter(ConfigResource resource, String name, String value) throws Exception {
        var kind = value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), kind)))).all().get();
    }

    static void settings() throws Exception {
        var topic = new ConfigResource(ConfigResource.Type.TOPIC, "j-small");
        alter(topic, "max.message.bytes", "2000");
        eventually(() -> setting(topic, "max.message.bytes").equals("2000"), "altered");
        try (var producer = producer(Map.of())) {
            producer.send(new ProducerRecord<>("j-small", new byte[3000])).get();
            throw new AssertionError("too large, and taken");
        } catch (ExecutionException e) {
            check(e.getCause() instanceof RecordTooLargeException, e.getCause());
        }
        alter(topic, "max.message.bytes", null);
        eventually(() -> setting(topic, "max.message.bytes").equals("1048588"), "the default again");
        var broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        alter(broker, "log.cleaner.threads", "2");
        // A broker takes its settings over from the metadata, so Kafka's answer may still be the old one.
        eventually(() -> setting(broker, "log.cleaner.threads").equals("2"), "a broker's setting");
        alter(broker, "log.cleaner.threads", null);
        check(admin.listConfigResources().all().get().stream().anyMatch(one -> one.name().equals("j-large")), "listed");
        System.out.println("settings");
    }

    static void cluster() throws Exception {
        var nodes = admin.describeCluster().nodes().get();
        check(nodes.size() == nodeCount, nodes);
        check(nodes.contains(admin.describeCluster().controller().get()), "controller");
        var quorum = admin.describeMetadataQuorum().quorumInfo().get();
        check(quorum.leaderId() >= 1 && quorum.leaderId() <= nodeCount && quorum.voters().size() == nodeCount, quorum);
        check(admin.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"), "features");
        var dirs = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().iterator().next();
        check(dirs.error() == null && dirs.replicaInfos().get(new TopicPartition("j-large", 0)).size() > 10_000_000, dirs);
        check(admin.listPartitionReassignments().reassignments().get().isEmpty(), "reassignments");
        refused(ElectionNotNeededException.class,
            admin.electLeaders(ElectionType.PREFERRED, Set.of(new TopicPartition("j-large", 0))).all());
        System.out.println("cluster");
    }
}
