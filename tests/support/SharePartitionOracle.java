import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

import kafka.server.ReplicaManager;
import kafka.server.share.SharePartition;

import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateResult;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateParameters;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateResult;
import org.apache.kafka.server.share.persister.PartitionAllData;
import org.apache.kafka.server.share.persister.PartitionErrorData;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/** Kafka's share partition, driven by lines of text; see tests/unit/replica/share/scripts.py. */
public class SharePartitionOracle {
    static final Uuid TOPIC = new Uuid(1, 2);
    static long nowMs;
    static SharePartition partition;
    static List<PersisterStateBatch> stored = new ArrayList<>();
    static long storedStart;
    static String mode = "ok";
    static List<Runnable> pending = new ArrayList<>();
    static List<Runnable> refusals = new ArrayList<>();
    static List<String> written = new ArrayList<>();
    static Clock clock = new Clock();
    static Wheel wheel;

    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            System.out.println("> " + line);
            execute(line.split(" "));
            written.stream().sorted().forEach(System.out::println);
            written.clear();
            System.out.println(shown());
        }
    }

    static void execute(String[] words) throws Exception {
        switch (words[0]) {
            case "begin" -> begin(words);
            case "acquire" -> acquire(words);
            case "acknowledge" -> {
                List<ShareAcknowledgementBatch> batches = new ArrayList<>();
                for (int at = 2; at < words.length; at++) {
                    String[] parts = words[at].split(":");
                    List<Byte> types = new ArrayList<>();
                    for (String type : parts[2].split(",")) {
                        types.add(Byte.parseByte(type));
                    }
                    batches.add(new ShareAcknowledgementBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]), types));
                }
                tell(partition.acknowledge(words[1], batches));
            }
            case "release" -> tell(partition.releaseAcquiredRecords(words[1]));
            case "advance" -> wheel.advance(Long.parseLong(words[1]));
            case "log-start" -> call("updateCacheAndOffsets", long.class, Long.parseLong(words[1]));
            case "store" -> mode = words[1];
            case "settle" -> {
                List<Runnable> due = words[1].equals("ok") ? pending : refusals;
                List<Runnable> copy = List.copyOf(due);
                pending.clear();
                refusals.clear();
                copy.forEach(Runnable::run);
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    static void begin(String[] words) throws Exception {
        nowMs = 1_000_000;
        mode = "ok";
        pending.clear();
        refusals.clear();
        wheel = new Wheel();
        stored = new ArrayList<>();
        storedStart = Long.parseLong(words[4]);
        for (int at = 5; at < words.length; at++) {
            String[] parts = words[at].split(":");
            stored.add(new PersisterStateBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]),
                Byte.parseByte(parts[2]), Short.parseShort(parts[3])));
        }
        Constructor<?> made = null;
        for (Constructor<?> one : SharePartition.class.getDeclaredConstructors()) {
            if (one.getParameterCount() == 12) {
                made = one;
            }
        }
        made.setAccessible(true);
        partition = (SharePartition) made.newInstance("g", new TopicIdPartition(TOPIC, new TopicPartition("t", 0)), 0,
            Integer.parseInt(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]), wheel, clock,
            new Store(), replicas(), configs(), null);
        partition.maybeInitialize().join();
    }

    static void acquire(String[] words) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        for (int at = 6; at < words.length; at++) {
            String[] ends = words[at].split("-");
            long first = Long.parseLong(ends[0]);
            try (MemoryRecordsBuilder builder = MemoryRecords.builder(
                    buffer, Compression.NONE, TimestampType.CREATE_TIME, first)) {
                for (long offset = first; offset <= Long.parseLong(ends[1]); offset++) {
                    builder.append(0L, null, new byte[1]);
                }
            }
        }
        buffer.flip();
        MemoryRecords records = MemoryRecords.readableRecords(buffer);
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 1000, 0, records, Optional.empty(),
            OptionalLong.empty(), Optional.empty(), OptionalInt.empty(), false);
        ShareAcquiredRecords found = partition.acquire(words[1], ShareAcquireMode.forId(Byte.parseByte(words[2])),
            Integer.parseInt(words[3]), Integer.parseInt(words[4]), Long.parseLong(words[5]), data,
            FetchIsolation.HIGH_WATERMARK);
        StringBuilder text = new StringBuilder("acquired");
        for (AcquiredRecords one : found.acquiredRecords()) {
            text.append(" ").append(one.firstOffset()).append("-").append(one.lastOffset()).append("x")
                .append(one.deliveryCount());
        }
        System.out.println(text);
    }

    static void tell(CompletableFuture<Void> done) {
        if (!done.isDone()) {
            System.out.println("waits");
        } else if (done.isCompletedExceptionally()) {
            done.whenComplete((value, error) -> System.out.println(Errors.forException(error).name()));
        } else {
            System.out.println("done");
        }
    }

    /** Offsets and counts, and every batch in flight. */
    @SuppressWarnings("unchecked")
    static String shown() throws Exception {
        StringBuilder text = new StringBuilder("start=" + call("startOffset") + " end=" + call("endOffset") + " next="
            + partition.nextFetchOffset() + " complete=" + call("deliveryCompleteCount") + " more="
            + call("canAcquireRecords"));
        for (InFlightBatch batch : ((NavigableMap<Long, InFlightBatch>) call("cachedState")).values()) {
            text.append(" ").append(batch.firstOffset()).append("-").append(batch.lastOffset()).append("[");
            if (batch.offsetState() == null) {
                text.append(batch.batchState().id()).append(batch.batchMemberId()).append(batch.batchDeliveryCount());
            } else {
                List<String> each = new ArrayList<>();
                for (InFlightState state : batch.offsetState().values()) {
                    each.add(state.state().id() + state.memberId() + state.deliveryCount());
                }
                text.append(String.join(",", each));
            }
            text.append("]");
        }
        return text.toString();
    }

    static Object call(String name) throws Exception {
        Method method = SharePartition.class.getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(partition);
    }

    static void call(String name, Class<?> kind, Object argument) throws Exception {
        Method method = SharePartition.class.getDeclaredMethod(name, kind);
        method.setAccessible(true);
        method.invoke(partition, argument);
    }

    /** A replica manager whose only part is the purgatory in which nobody waits. */
    static ReplicaManager replicas() throws Exception {
        return (ReplicaManager) bare(ReplicaManager.class, "delayedShareFetchPurgatory",
            new DelayedOperationPurgatory<>("share", new Wheel(), 0, false));
    }

    /** Groups without settings of their own. */
    static GroupConfigManager configs() throws Exception {
        return (GroupConfigManager) bare(GroupConfigManager.class, "configMap", new ConcurrentHashMap<>());
    }

    static Object bare(Class<?> kind, String field, Object value) throws Exception {
        Field unsafeField = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafeField.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) unsafeField.get(null);
        Object made = unsafe.allocateInstance(kind);
        Field found = kind.getDeclaredField(field);
        unsafe.putObject(made, unsafe.objectFieldOffset(found), value);
        return made;
    }

    /** Keeps nothing: it prints what it is given, and succeeds, fails or waits as the script says. */
    static class Store implements Persister {
        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters request) {
            PartitionAllData data = PartitionFactory.newPartitionAllData(0, 5, storedStart, (short) 0, "", stored);
            Uuid topic = request.groupTopicPartitionData().topicsData().get(0).topicId();
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder()
                .setTopicsData(List.of(new TopicData<>(topic, List.of(data)))).build());
        }

        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters request) {
            TopicData<PartitionStateBatchData> topic = request.groupTopicPartitionData().topicsData().get(0);
            for (PersisterStateBatch one : topic.partitions().get(0).stateBatches()) {
                written.add("write " + one.firstOffset() + "-" + one.lastOffset() + ":" + one.deliveryState() + "x"
                    + one.deliveryCount());
            }
            CompletableFuture<WriteShareGroupStateResult> answer = new CompletableFuture<>();
            Runnable good = () -> answer.complete(result(topic.topicId(), Errors.NONE));
            Runnable bad = () -> answer.complete(result(topic.topicId(), Errors.COORDINATOR_NOT_AVAILABLE));
            switch (mode) {
                case "ok" -> good.run();
                case "fails" -> bad.run();
                default -> {
                    pending.add(good);
                    refusals.add(bad);
                }
            }
            return answer;
        }

        static WriteShareGroupStateResult result(Uuid topic, Errors error) {
            PartitionErrorData data = PartitionFactory.newPartitionErrorData(0, error.code(), error.message());
            return new WriteShareGroupStateResult.Builder()
                .setTopicsData(List.of(new TopicData<>(topic, List.of(data)))).build();
        }

        public CompletableFuture<InitializeShareGroupStateResult> initializeState(InitializeShareGroupStateParameters request) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<DeleteShareGroupStateResult> deleteState(DeleteShareGroupStateParameters request) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<ReadShareGroupStateSummaryResult> readSummary(ReadShareGroupStateSummaryParameters request) {
            throw new UnsupportedOperationException();
        }

        public void stop() {
        }
    }

    /** Timers that fire when the script says that time passes, the earliest first. */
    static class Wheel implements Timer {
        private final List<TimerTaskEntry> entries = new ArrayList<>();

        public void add(TimerTask task) {
            entries.add(new TimerTaskEntry(task, nowMs + task.delayMs));
        }

        void advance(long ms) {
            nowMs += ms;
            while (true) {
                entries.removeIf(TimerTaskEntry::cancelled);
                Optional<TimerTaskEntry> due = entries.stream().filter(one -> one.expirationMs <= nowMs)
                    .min(Comparator.comparingLong(one -> one.expirationMs));
                if (due.isEmpty()) {
                    return;
                }
                entries.remove(due.get());
                due.get().timerTask.run();
            }
        }

        public boolean advanceClock(long ms) {
            return false;
        }

        public int size() {
            return entries.size();
        }

        public void close() {
        }
    }

    static class Clock implements Time {
        public long milliseconds() {
            return nowMs;
        }

        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        public long hiResClockMs() {
            return nowMs;
        }

        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }

        public org.apache.kafka.common.utils.Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }
}
