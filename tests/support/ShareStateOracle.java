import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.function.Supplier;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Kafka's share coordinator shard, driven by lines of text; see tests/unit/coordinator/share/scripts.py. */
public class ShareStateOracle {
    static long nowMs;
    static long offset;
    static ShareCoordinatorShard shard;
    static final ShareCoordinatorRecordSerde SERDE = new ShareCoordinatorRecordSerde();

    /** The clock that the script moves; nobody here waits. */
    static class Clock implements Time {
        public long milliseconds() {
            return nowMs;
        }

        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }

        public Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            System.out.println("> " + line);
            execute(line.split(" "));
        }
    }

    static void execute(String[] words) {
        switch (words[0]) {
            case "begin" -> begin(Long.parseLong(words[1]), words[2], words[3], words[4]);
            case "advance" -> nowMs += Long.parseLong(words[1]);
            case "cold" -> write(shard.snapshotColdPartitions());
            case "needed" -> System.out.println(shard.lastRedundantOffset().response().map(Object::toString).orElse("none"));
            default -> ask(words);
        }
    }

    static void begin(long startMs, String updates, String interval, String topicId) {
        nowMs = startMs;
        offset = 0;
        ShareCoordinatorConfig config = new ShareCoordinatorConfig(new AbstractConfig(
            ShareCoordinatorConfig.CONFIG_DEF,
            Map.of(
                ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG, updates,
                ShareCoordinatorConfig.COLD_PARTITION_SNAPSHOT_INTERVAL_MS_CONFIG, interval),
            false));
        shard = new ShareCoordinatorShard.Builder(config)
            .withLogContext(new LogContext())
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withCoordinatorMetrics(new ShareCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .withTime(new Clock())
            .build();
        shard.onLoaded(new Image(Uuid.fromString(topicId)));
    }

    /** The other commands: the verb, the group, the topic id, the partition, and what the verb needs. */
    static void ask(String[] words) {
        String group = words[1];
        Uuid topic = Uuid.fromString(words[2]);
        int partition = Integer.parseInt(words[3]);
        switch (words[0]) {
            case "initialize" -> {
                var result = shard.initializeState(new InitializeShareGroupStateRequestData().setGroupId(group)
                    .setTopics(List.of(new InitializeShareGroupStateRequestData.InitializeStateData().setTopicId(topic)
                        .setPartitions(List.of(new InitializeShareGroupStateRequestData.PartitionData()
                            .setPartition(partition).setStateEpoch(number(words, 4)).setStartOffset(number(words, 5)))))));
                System.out.println("error " + result.response().results().get(0).partitions().get(0).errorCode());
                write(result);
            }
            case "write" -> {
                List<WriteShareGroupStateRequestData.StateBatch> batches = new ArrayList<>();
                for (int at = 8; at < words.length; at++) {
                    String[] parts = words[at].split(":");
                    batches.add(new WriteShareGroupStateRequestData.StateBatch()
                        .setFirstOffset(Long.parseLong(parts[0])).setLastOffset(Long.parseLong(parts[1]))
                        .setDeliveryState(Byte.parseByte(parts[2])).setDeliveryCount(Short.parseShort(parts[3])));
                }
                var result = shard.writeState(new WriteShareGroupStateRequestData().setGroupId(group)
                    .setTopics(List.of(new WriteShareGroupStateRequestData.WriteStateData().setTopicId(topic)
                        .setPartitions(List.of(new WriteShareGroupStateRequestData.PartitionData()
                            .setPartition(partition).setStateEpoch(number(words, 4)).setLeaderEpoch(number(words, 5))
                            .setStartOffset(number(words, 6)).setDeliveryCompleteCount(number(words, 7))
                            .setStateBatches(batches))))));
                System.out.println("error " + result.response().results().get(0).partitions().get(0).errorCode());
                write(result);
            }
            case "read" -> {
                var result = shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData().setGroupId(group)
                    .setTopics(List.of(new ReadShareGroupStateRequestData.ReadStateData().setTopicId(topic)
                        .setPartitions(List.of(new ReadShareGroupStateRequestData.PartitionData()
                            .setPartition(partition).setLeaderEpoch(number(words, 4)))))));
                var told = result.response().results().get(0).partitions().get(0);
                System.out.println("error " + told.errorCode());
                if (told.errorCode() == 0) {
                    StringBuilder text = new StringBuilder("state " + told.stateEpoch() + " " + told.startOffset());
                    told.stateBatches().forEach(one -> text.append(" ").append(one.firstOffset()).append(":")
                        .append(one.lastOffset()).append(":").append(one.deliveryState()).append(":")
                        .append(one.deliveryCount()));
                    System.out.println(text);
                }
                write(result);
            }
            case "summary" -> {
                var result = shard.readStateSummary(new ReadShareGroupStateSummaryRequestData().setGroupId(group)
                    .setTopics(List.of(new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData().setTopicId(topic)
                        .setPartitions(List.of(new ReadShareGroupStateSummaryRequestData.PartitionData()
                            .setPartition(partition))))));
                var told = result.response().results().get(0).partitions().get(0);
                System.out.println("error " + told.errorCode());
                if (told.errorCode() == 0) {
                    System.out.println("summary " + told.stateEpoch() + " " + told.leaderEpoch() + " "
                        + told.startOffset() + " " + told.deliveryCompleteCount());
                }
            }
            case "delete" -> {
                var result = shard.deleteState(new DeleteShareGroupStateRequestData().setGroupId(group)
                    .setTopics(List.of(new DeleteShareGroupStateRequestData.DeleteStateData().setTopicId(topic)
                        .setPartitions(List.of(new DeleteShareGroupStateRequestData.PartitionData()
                            .setPartition(partition))))));
                System.out.println("error " + result.response().results().get(0).partitions().get(0).errorCode());
                write(result);
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    static int number(String[] words, int at) {
        return Integer.parseInt(words[at]);
    }

    /** Print and replay what a decision came to, in an order that does not depend on a hash. */
    static void write(CoordinatorResult<?, CoordinatorRecord> result) {
        List<String> printed = new ArrayList<>();
        for (CoordinatorRecord record : result.records()) {
            byte[] value = SERDE.serializeValue(record);
            HexFormat hex = HexFormat.of();
            printed.add(hex.formatHex(SERDE.serializeKey(record)) + " " + (value == null ? "null" : hex.formatHex(value)));
            shard.replay(offset++, -1, (short) -1, record);
        }
        printed.stream().sorted().forEach(System.out::println);
    }

    /** One topic of four partitions. */
    record Image(Uuid id) implements CoordinatorMetadataImage {
        public Set<Uuid> topicIds() {
            return Set.of(id);
        }

        public Set<String> topicNames() {
            return Set.of("t");
        }

        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.empty();
        }

        public Optional<TopicMetadata> topicMetadata(Uuid topicId) {
            return topicId.equals(id) ? Optional.of(new Topic(id)) : Optional.empty();
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

    record Topic(Uuid id) implements CoordinatorMetadataImage.TopicMetadata {
        public String name() {
            return "t";
        }

        public int partitionCount() {
            return 4;
        }

        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }
}
