// A whole QuorumController of Kafka's over a log in memory: it is asked what test_kafka_controller.py has asked ours.
// Arguments: a file of commands, a line each, and the file for the answers.
//   time MS                       the clock moves on
//   topic NAME UUID               the id that a topic has there; it has another one here
//   request KEY VERSION HEX       a request
// The answer to a request is a line of JSON for each record, a line with the response or the error, and an empty line.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.controller.QuorumFeatures;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.RaftClient;
import org.apache.kafka.raft.internals.MemoryBatchReader;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.fault.FaultHandler;
import org.apache.kafka.snapshot.SnapshotWriter;

public class ControllerOracle {
    static final long NEVER_MS = TimeUnit.DAYS.toMillis(10_000);

    static class SetTime implements Time {
        final AtomicLong nowMs = new AtomicLong(1_000_000);

        public long milliseconds() { return nowMs.get(); }

        public long nanoseconds() { return TimeUnit.MILLISECONDS.toNanos(nowMs.get()); }

        public void sleep(long ms) { throw new UnsupportedOperationException(); }

        public void waitObject(Object lock, Supplier<Boolean> condition, long deadline) { throw new UnsupportedOperationException(); }
    }

    // A quorum of one: what is appended is committed.
    static class Raft implements RaftClient<ApiMessageAndVersion> {
        Listener<ApiMessageAndVersion> listener;
        long end = 0;
        List<ApiMessageAndVersion> prepared;
        final List<ApiMessageAndVersion> fresh = new ArrayList<>();
        final LeaderAndEpoch leader = new LeaderAndEpoch(OptionalInt.of(1), 1);

        public void register(Listener<ApiMessageAndVersion> listener) { this.listener = listener; }

        public void unregister(Listener<ApiMessageAndVersion> listener) { }

        public OptionalLong highWatermark() { return OptionalLong.of(end); }

        public LeaderAndEpoch leaderAndEpoch() { return leader; }

        public OptionalInt nodeId() { return OptionalInt.of(1); }

        public Optional<Node> voterNode(int id, ListenerName name) { return Optional.empty(); }

        public long prepareAppend(int epoch, List<ApiMessageAndVersion> records) {
            prepared = List.copyOf(records);
            return end + records.size() - 1;
        }

        public void schedulePreparedAppend() {
            Batch<ApiMessageAndVersion> batch = Batch.data(end, 1, 0, 100, prepared);
            fresh.addAll(prepared);
            end += prepared.size();
            listener.handleCommit(MemoryBatchReader.of(List.of(batch), reader -> { }));
        }

        public CompletableFuture<Void> shutdown(int timeoutMs) { return CompletableFuture.completedFuture(null); }

        public void resign(int epoch) { throw new IllegalStateException("the controller resigns"); }

        public Optional<SnapshotWriter<ApiMessageAndVersion>> createSnapshot(OffsetAndEpoch id, long time) { return Optional.empty(); }

        public Optional<OffsetAndEpoch> latestSnapshotId() { return Optional.empty(); }

        public long logEndOffset() { return end; }

        public KRaftVersion kraftVersion() { return KRaftVersion.KRAFT_VERSION_0; }

        public void upgradeKRaftVersion(int epoch, KRaftVersion version, boolean validateOnly) { throw new UnsupportedOperationException(); }

        public void close() { }
    }

    static final SetTime time = new SetTime();
    static final Raft raft = new Raft();
    static QuorumController controller;
    static final List<String> answers = new ArrayList<>();
    static final Map<Uuid, String> nameOf = new HashMap<>();
    static final Map<String, Uuid> idOf = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        try {
            run(arguments);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);  // the controller's thread would keep the process
        }
        System.exit(0);
    }

    static void run(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        FaultHandler faults = (message, cause) -> {
            System.err.println(message);
            if (cause != null) cause.printStackTrace();
            return new RuntimeException(message, cause);
        };
        List<ApiMessageAndVersion> bootstrap = new ArrayList<>();
        for (String word : lines.get(0).split(" ")) {
            String[] feature = word.split("=");
            bootstrap.add(new ApiMessageAndVersion(new FeatureLevelRecord()
                .setName(feature[0]).setFeatureLevel(Short.parseShort(feature[1])), (short) 0));
        }
        controller = new QuorumController.Builder(1, arguments[2])
            .setTime(time)
            .setRaftClient(raft)
            .setConfigSchema(KafkaRaftServer.configSchema())
            .setQuorumFeatures(new QuorumFeatures(1, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(1)))
            .setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(9000))
            .setFenceStaleBrokerIntervalNs(TimeUnit.MILLISECONDS.toNanos(NEVER_MS))
            .setUncleanLeaderElectionCheckIntervalMs(NEVER_MS)
            .setDelegationTokenExpiryCheckIntervalMs(NEVER_MS)
            .setControllerPerformanceSamplePeriodMs(NEVER_MS)
            .setDefaultReplicationFactor((short) 1)
            .setDefaultNumPartitions(1)
            .setBootstrapMetadata(BootstrapMetadata.fromRecords(bootstrap, "test"))
            .setFatalFaultHandler(faults)
            .setNonFatalFaultHandler(faults)
            .build();
        raft.listener.handleLeaderChange(raft.leader);
        controller.findAllTopicIds(context(0, 0)).get();
        flush("started");
        for (String line : lines.subList(1, lines.size())) {
            String[] word = line.split(" ");
            switch (word[0]) {
                case "time" -> time.nowMs.addAndGet(Long.parseLong(word[1]));
                case "topic" -> nameOf.put(Uuid.fromString(word[2]), word[1]);
                case "request" -> ask(Short.parseShort(word[1]), Short.parseShort(word[2]), HexFormat.of().parseHex(word[3]));
            }
        }
        Files.write(Path.of(arguments[1]), answers);
    }

    static ControllerRequestContext context(int key, int version) {
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey((short) key).setRequestApiVersion((short) version);
        return new ControllerRequestContext(header, KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }

    static void flush(String response) {
        for (ApiMessageAndVersion record : raft.fresh) {
            if (record.message() instanceof TopicRecord topic) idOf.put(topic.name(), topic.topicId());
            answers.add(record.message().getClass().getSimpleName() + "." + record.version() + " "
                + MetadataJsonConverters.writeJson(record.message(), record.version()));
        }
        raft.fresh.clear();
        answers.add(response);
        answers.add("");
    }

    static Uuid here(Uuid there) {
        String name = nameOf.get(there);
        return name == null || !idOf.containsKey(name) ? there : idOf.get(name);
    }

    static void ask(short key, short version, byte[] bytes) throws Exception {
        String response;
        try {
            response = answer(ApiKeys.forId(key), version, new ByteBufferAccessor(ByteBuffer.wrap(bytes)));
        } catch (ExecutionException wrapped) {
            Throwable cause = wrapped.getCause();
            response = "error " + Errors.forException(cause).name() + ": " + cause.getMessage();
        }
        controller.findAllTopicIds(context(0, 0)).get();
        flush(response);
    }

    static String error(ApiError error) {
        return error.isSuccess() ? "NONE" : error.error().name() + ": " + error.message();
    }

    static String answer(ApiKeys key, short version, ByteBufferAccessor in) throws Exception {
        ControllerRequestContext context = context(key.id, version);
        switch (key) {
            case BROKER_REGISTRATION:
                return "epoch " + controller.registerBroker(context, new BrokerRegistrationRequestData(in, version)).get().epoch();
            case BROKER_HEARTBEAT: {
                var reply = controller.processBrokerHeartbeat(context, new BrokerHeartbeatRequestData(in, version)).get();
                return reply.isCaughtUp() + " " + reply.isFenced() + " " + reply.shouldShutDown();
            }
            case UNREGISTER_BROKER:
                controller.unregisterBroker(context, new UnregisterBrokerRequestData(in, version).brokerId()).get();
                return "done";
            case ALLOCATE_PRODUCER_IDS:
                return AllocateProducerIdsResponseDataJsonConverter.write(
                    controller.allocateProducerIds(context, new AllocateProducerIdsRequestData(in, version)).get(), version).toString();
            case CREATE_TOPICS: {
                CreateTopicsRequestData request = new CreateTopicsRequestData(in, version);
                Set<String> names = new java.util.HashSet<>();
                request.topics().forEach(topic -> names.add(topic.name()));
                var topics = controller.createTopics(context, request, names, false).get().topics();
                List<String> told = new ArrayList<>();
                topics.forEach(topic -> told.add(Errors.forCode(topic.errorCode()).name() + ": " + topic.errorMessage()));
                return told.toString();
            }
            case CREATE_PARTITIONS: {
                CreatePartitionsRequestData request = new CreatePartitionsRequestData(in, version);
                List<CreatePartitionsRequestData.CreatePartitionsTopic> topics = new ArrayList<>();
                request.topics().forEach(topic -> topics.add(topic.duplicate()));
                List<String> told = new ArrayList<>();
                controller.createPartitions(context, topics, request.validateOnly()).get()
                    .forEach(topic -> told.add(Errors.forCode(topic.errorCode()).name() + ": " + topic.errorMessage()));
                return told.toString();
            }
            case DELETE_TOPICS: {
                DeleteTopicsRequestData request = new DeleteTopicsRequestData(in, version);
                Collection<String> names = new ArrayList<>(request.topicNames());
                request.topics().forEach(topic -> names.add(topic.name()));
                List<Uuid> ids = new ArrayList<>();
                for (ResultOrError<Uuid> found : controller.findTopicIds(context, names).get().values()) {
                    if (found.isResult()) ids.add(found.result());
                }
                return ids.size() + " " + controller.deleteTopics(context, ids).get().size();
            }
            case ELECT_LEADERS:
                return ElectLeadersResponseDataJsonConverter.write(
                    controller.electLeaders(context, new ElectLeadersRequestData(in, version)).get(), version).toString();
            case ALTER_PARTITION: {
                AlterPartitionRequestData request = new AlterPartitionRequestData(in, version);
                request.topics().forEach(topic -> topic.setTopicId(here(topic.topicId())));
                return AlterPartitionResponseDataJsonConverter.write(controller.alterPartition(context, request).get(), version).toString();
            }
            case ALTER_PARTITION_REASSIGNMENTS:
                return AlterPartitionReassignmentsResponseDataJsonConverter.write(controller.alterPartitionReassignments(
                    context, new AlterPartitionReassignmentsRequestData(in, version)).get(), version).toString();
            case ASSIGN_REPLICAS_TO_DIRS: {
                AssignReplicasToDirsRequestData request = new AssignReplicasToDirsRequestData(in, version);
                request.directories().forEach(one -> one.topics().forEach(topic -> topic.setTopicId(here(topic.topicId()))));
                return AssignReplicasToDirsResponseDataJsonConverter.write(
                    controller.assignReplicasToDirs(context, request).get(), version).toString();
            }
            case INCREMENTAL_ALTER_CONFIGS: {
                Map<ConfigResource, Map<String, Map.Entry<OpType, String>>> changes = new HashMap<>();
                new IncrementalAlterConfigsRequestData(in, version).resources().forEach(resource -> {
                    Map<String, Map.Entry<OpType, String>> change = new HashMap<>();
                    resource.configs().forEach(config ->
                        change.put(config.name(), Map.entry(OpType.forId(config.configOperation()), config.value())));
                    changes.put(new ConfigResource(ConfigResource.Type.forId(resource.resourceType()), resource.resourceName()), change);
                });
                List<String> told = new ArrayList<>();
                controller.incrementalAlterConfigs(context, changes, false, false).get().values().forEach(one -> told.add(error(one)));
                return told.toString();
            }
            case UPDATE_FEATURES:
                return UpdateFeaturesResponseDataJsonConverter.write(
                    controller.updateFeatures(context, new UpdateFeaturesRequestData(in, version)).get(), version).toString();
            default:
                throw new IllegalArgumentException(Arrays.toString(new Object[] {key}));
        }
    }
}
