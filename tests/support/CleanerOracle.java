// Kafka's own log and cleaner, driven by the commands of `cleaner_log.py`. Reads a file of scripts, each begun by a line
// `script NAME SETTINGS`, and prints for each command the line `> command` and what Kafka answers below it.
// Run with Kafka's jars on the class path: java -cp ... CleanerOracle.java SCRIPTS DIRECTORY

import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Stream;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class CleanerOracle {
    static class ManualTime implements Time {
        long now = 1_767_225_600_000L;
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { now += ms; }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    }

    static class IdleScheduler implements Scheduler {
        final ScheduledThreadPoolExecutor pool = new ScheduledThreadPoolExecutor(1);
        public void startup() { }
        public void shutdown() { pool.shutdownNow(); }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return pool.schedule(() -> { }, 365, TimeUnit.DAYS);
        }
        public void resizeThreadPool(int size) { }
    }

    static final IdleScheduler SCHEDULER = new IdleScheduler();
    static final BrokerTopicStats STATS = new BrokerTopicStats();
    static final double LOAD_FACTOR = 0.9;

    final ManualTime time = new ManualTime();
    final File directory;
    final Map<String, String> settings = new HashMap<>();
    UnifiedLog log;
    Optional<Long> checkpoint = Optional.empty();

    CleanerOracle(File directory, String[] words) throws Exception {
        this.directory = directory;
        directory.mkdirs();
        for (int i = 2; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            settings.put(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
        log = open(0);
        touch();
    }

    UnifiedLog open(long start) throws Exception {
        return UnifiedLog.create(directory, new LogConfig(settings), start, 0, SCHEDULER, STATS, time, 900_000,
                new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
                Optional.<Uuid>empty());
    }

    List<String> execute(String[] words) throws Exception {
        switch (words[0]) {
            case "append": {
                byte[] data = HexFormat.of().parseHex(words[1]);
                log.appendAsFollower(MemoryRecords.readableRecords(ByteBuffer.wrap(data)), 0);
                touch();
                return List.of("end " + log.logEndOffset());
            }
            case "time":
                time.now = Long.parseLong(words[1]);
                return List.of();
            case "high-watermark":
                log.updateHighWatermark(Long.parseLong(words[1]));
                return List.of("stable " + stable());
            case "log-start":
                log.maybeIncrementLogStartOffset(Long.parseLong(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
                return List.of();
            case "roll":
                log.roll();
                touch();
                return List.of();
            case "expire":
                log.removeExpiredProducers(time.now);
                return List.of(log.producerIdCount() + " producers");
            case "retain":
                log.deleteOldSegments();
                return segments();
            case "checkpoint":
                checkpoint = Optional.of(Long.parseLong(words[1]));
                return List.of();
            case "restart": {
                long start = log.logStartOffset();
                long mark = log.highWatermark();
                log.close();
                log = open(start);
                log.updateHighWatermark(mark);
                return List.of("end " + log.logEndOffset() + ", stable " + stable());
            }
            case "clean":
                return clean(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    // The age of a segment without timestamps is that of its file, which the file system takes from another clock.
    void touch() {
        log.activeSegment().log().file().setLastModified(time.now);
    }

    // When the log's start is inside a batch of an open transaction, Kafka gives the start of that batch, which nobody
    // can read any more.
    long stable() {
        return Math.max(log.lastStableOffset(), log.logStartOffset());
    }

    List<String> clean(int slots, int bufferSize) throws Exception {
        List<String> told = new ArrayList<>();
        Method cleanableOffsets = LogCleanerManager.class.getDeclaredMethod(
                "cleanableOffsets", UnifiedLog.class, Optional.class, long.class);
        cleanableOffsets.setAccessible(true);
        Record range = (Record) cleanableOffsets.invoke(null, log, checkpoint, time.now);
        long[] offsets = new long[2];
        boolean isReset = false;
        int place = 0;
        for (RecordComponent component : range.getClass().getRecordComponents()) {
            component.getAccessor().setAccessible(true);
            Object value = component.getAccessor().invoke(range);
            if (value instanceof Long number) offsets[place++] = number;
            else isReset = (Boolean) value;
        }
        Method maxCompactionDelay = LogCleanerManager.class.getDeclaredMethod(
                "maxCompactionDelay", UnifiedLog.class, long.class, long.class);
        maxCompactionDelay.setAccessible(true);
        long delay = (Long) maxCompactionDelay.invoke(null, log, offsets[0], time.now);
        LogToClean target = new LogToClean(log, offsets[0], offsets[1], delay > 0);
        told.add("dirty " + target.firstDirtyOffset() + " to " + target.firstUncleanableOffset() + ", clean "
                + target.cleanBytes() + ", cleanable " + target.cleanableBytes() + ", delay " + delay + ", reset " + isReset);
        if (target.cleanableBytes() == 0) return told;
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(slots * 24), bufferSize, 1 << 20, LOAD_FACTOR,
                new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner-io", "bytes", time), time, partition -> { });
        Map.Entry<Long, CleanerStats> result = cleaner.doClean(target, time.now);
        checkpoint = Optional.of(result.getKey());
        CleanerStats stats = result.getValue();
        told.add("cleaned to " + result.getKey() + ", read " + stats.bytesRead() + " bytes, " + stats.messagesRead()
                + " messages, wrote " + stats.bytesWritten() + " bytes, " + stats.messagesWritten() + " messages, "
                + stats.invalidMessagesRead() + " invalid");
        told.addAll(segments());
        return told;
    }

    // The closed segments: a hash of each of their files.
    List<String> segments() throws Exception {
        List<String> told = new ArrayList<>();
        try (Stream<Path> files = Files.list(directory.toPath())) {
            for (Path path : files.sorted().toList()) {
                String name = path.getFileName().toString();
                if (!name.matches("[0-9]{20}\\.(log|index|timeindex|txnindex)")) continue;
                if (Long.parseLong(name.substring(0, 20)) >= log.activeSegment().baseOffset()) continue;
                byte[] data = Files.readAllBytes(path);
                if (name.endsWith(".txnindex") && data.length == 0) continue;
                byte[] digest = MessageDigest.getInstance("SHA-256").digest(data);
                told.add(name + " " + data.length + " " + HexFormat.of().formatHex(digest, 0, 8));
            }
        }
        return told;
    }

    public static void main(String[] arguments) throws Exception {
        try {
            run(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        SCHEDULER.shutdown();
    }

    static void run(String[] arguments) throws Exception {
        CleanerOracle oracle = null;
        StringBuilder out = new StringBuilder();
        int scripts = 0;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            if (words[0].equals("script")) {
                if (oracle != null) oracle.log.close();
                oracle = new CleanerOracle(new File(arguments[1] + "/" + scripts++ + "/topic-0"), words);
                out.append(line).append('\n');
                continue;
            }
            out.append("> ").append(line).append('\n');
            for (String answer : oracle.execute(words)) out.append(answer).append('\n');
        }
        if (oracle != null) oracle.log.close();
        System.out.print(out);
    }
}
