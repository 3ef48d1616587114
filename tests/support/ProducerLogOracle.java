// Kafka's own log, driven by the commands of the transcripts (see producer_log.py). Reads a file of scripts, each
// begun by a line `script NAME`, and writes for each command the line `> command` and what Kafka answers below it.
// Run with Kafka's jars on the class path: java -cp ... ProducerLogOracle.java SCRIPTS DIRECTORY ANSWERS

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class ProducerLogOracle {
    static class ManualTime implements Time {
        long now = 1_000_000;
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { now += ms; }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    }

    static class IdleScheduler implements Scheduler {
        final ScheduledThreadPoolExecutor pool = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);  // an exception in main ends the program
            return thread;
        });
        public void startup() { }
        public void shutdown() { pool.shutdownNow(); }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return pool.schedule(() -> { }, 365, TimeUnit.DAYS);
        }
        public void resizeThreadPool(int size) { }
    }

    static final IdleScheduler SCHEDULER = new IdleScheduler();
    static final BrokerTopicStats STATS = new BrokerTopicStats();
    static final int EPOCH = 0;

    final ManualTime time = new ManualTime();
    final ProducerStateManagerConfig config = new ProducerStateManagerConfig(86_400_000, false);
    final Map<String, VerificationGuard> guards = new HashMap<>();
    final File directory;
    UnifiedLog log;

    ProducerLogOracle(File directory) throws Exception {
        this.directory = directory;
        directory.mkdirs();
        log = open(0, 0);
    }

    UnifiedLog open(long start, long end) throws Exception {
        return UnifiedLog.create(directory, new LogConfig(Map.of()), start, end, SCHEDULER, STATS, time, 900_000, config,
                600_000, new LogDirFailureChannel(1), true, Optional.<Uuid>empty());
    }

    List<String> execute(String command) {
        List<String> plain = new ArrayList<>();
        Map<String, String> options = new HashMap<>();
        for (String word : command.trim().split("\\s+")) {
            int equals = word.indexOf('=');
            if (equals < 0) plain.add(word);
            else options.put(word.substring(0, equals), word.substring(equals + 1));
        }
        try {
            return execute(plain.get(0), plain, options);
        } catch (Exception error) {
            Errors code = Errors.forException(error);
            return List.of(code == Errors.UNKNOWN_SERVER_ERROR ? "unexpected: " + error : code.name());
        }
    }

    List<String> execute(String name, List<String> words, Map<String, String> options) throws Exception {
        switch (name) {
            case "append": return append(words, options);
            case "marker": return marker(words, options);
            case "verification":
                config.setTransactionVerificationEnabled(words.get(1).equals("on"));
                return List.of();
            case "verify": {
                VerificationGuard guard = log.maybeStartTransactionVerification(number(options, "pid"),
                        (int) number(options, "seq"), (short) number(options, "epoch"), words.contains("v2"));
                guards.put(words.get(1), guard);
                return List.of(guard == VerificationGuard.SENTINEL ? "not needed" : "to be verified");
            }
            case "high-watermark":
                log.updateHighWatermark(Long.parseLong(words.get(1)));
                return unstable();
            case "log-start":
                log.maybeIncrementLogStartOffset(Long.parseLong(words.get(1)), LogStartOffsetIncrementReason.ClientRecordDeletion);
                return unstable();
            case "truncate":
                log.truncateTo(Long.parseLong(words.get(1)));
                return unstable();
            case "reset":
                log.truncateFullyAndStartAt(Long.parseLong(words.get(1)), Optional.empty());
                return unstable();
            case "time":
                time.now = Long.parseLong(words.get(1));
                return List.of();
            case "expire":
                log.removeExpiredProducers(time.now);
                return List.of(log.producerIdCount() + " producers");
            case "late":
                return List.of(log.hasLateTransaction(time.now) ? "late" : "in time");
            case "snapshot":
                log.takeProducerSnapshot();
                return snapshots();
            case "snapshots":
                return snapshots();
            case "bytes":
                return List.of(HexFormat.of().formatHex(Files.readAllBytes(snapshot(words.get(1)))));
            case "damage": {
                Path path = snapshot(words.get(1));
                byte[] data = Files.readAllBytes(path);
                data[data.length - 1] ^= 1;
                Files.write(path, data);
                return List.of();
            }
            case "restart": {
                long start = log.logStartOffset();
                long end = log.logEndOffset();
                log.close();
                log = open(start, end);
                return unstable();
            }
            case "show": return show();
            case "aborted":
                return log.activeSegment().txnIndex().allAbortedTxns().stream().map(txn -> "pid " + txn.producerId() + " "
                        + txn.firstOffset() + ".." + txn.lastOffset() + " stable " + txn.lastStableOffset()).toList();
            default: throw new AssertionError("no such command: " + name);
        }
    }

    Path snapshot(String offset) {
        return directory.toPath().resolve(String.format("%020d.snapshot", Long.parseLong(offset)));
    }

    static long number(Map<String, String> options, String name) {
        return Long.parseLong(options.get(name));
    }

    List<String> append(List<String> words, Map<String, String> options) {
        String[] range = options.get("seq").split("\\.\\.");
        long first = Long.parseLong(range[0]);
        long last = Long.parseLong(range[range.length - 1]);
        int count = (int) (Math.floorMod(last - first, 1L << 31) + 1);
        long timestamp = options.containsKey("time") ? number(options, "time") : time.now;
        SimpleRecord[] records = new SimpleRecord[count];
        for (int index = 0; index < count; index++)
            records[index] = new SimpleRecord(timestamp, "value".getBytes());
        long pid = number(options, "pid");
        short epoch = (short) number(options, "epoch");
        long offset = words.get(1).equals("replica") ? log.logEndOffset() : 0;  // a leader assigns offsets itself
        MemoryRecords batch = words.contains("txn")
            ? MemoryRecords.withTransactionalRecords(offset, Compression.NONE, pid, epoch, (int) first, EPOCH, records)
            : MemoryRecords.withIdempotentRecords(offset, Compression.NONE, pid, epoch, (int) first, EPOCH, records);
        VerificationGuard guard = guards.getOrDefault(options.getOrDefault("guard", ""), VerificationGuard.SENTINEL);
        return append(words.get(1), batch, guard, (short) -1);
    }

    List<String> marker(List<String> words, Map<String, String> options) {
        ControlRecordType type = words.get(2).equals("commit") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        long timestamp = options.containsKey("time") ? number(options, "time") : time.now;
        MemoryRecords batch = MemoryRecords.withEndTransactionMarker(log.logEndOffset(), timestamp, EPOCH,
                number(options, "pid"), (short) number(options, "epoch"),
                new EndTransactionMarker(type, (int) number(options, "coordinator")));
        short version = Short.parseShort(options.getOrDefault("version", "0"));
        return append(words.get(1), batch, VerificationGuard.SENTINEL, version);
    }

    List<String> append(String origin, MemoryRecords records, VerificationGuard guard, short version) {
        long end = log.logEndOffset();
        LogAppendInfo info = switch (origin) {
            case "client" -> log.appendAsLeader(records, EPOCH, AppendOrigin.CLIENT, RequestLocal.noCaching(), guard, version);
            case "coordinator" ->
                log.appendAsLeader(records, EPOCH, AppendOrigin.COORDINATOR, RequestLocal.noCaching(), guard, version);
            case "replica" -> log.appendAsFollower(records, EPOCH);
            default -> throw new AssertionError("no such origin: " + origin);
        };
        String range = info.firstOffset() + ".." + info.lastOffset();
        return List.of((log.logEndOffset() == end ? "duplicate of " : "offsets ") + range);
    }

    List<String> snapshots() throws Exception {
        try (Stream<Path> files = Files.list(directory.toPath())) {
            String offsets = files.map(file -> file.getFileName().toString()).filter(file -> file.endsWith(".snapshot"))
                .map(file -> Long.parseLong(file.substring(0, 20))).sorted().map(String::valueOf).collect(Collectors.joining(" "));
            return List.of(offsets.isEmpty() ? "no snapshots" : "snapshots at " + offsets);
        }
    }

    List<String> show() {
        List<String> lines = new ArrayList<>();
        new TreeMap<>(log.producerStateManager().activeProducers()).forEach((pid, entry) -> {
            String batches = entry.batchMetadata().stream().map(batch -> batch.firstSeq() + ".." + batch.lastSeq() + "@"
                    + batch.firstOffset() + ".." + batch.lastOffset() + "/" + batch.timestamp()).collect(Collectors.joining(" "));
            lines.add("pid " + pid + " epoch " + entry.producerEpoch() + " coordinator " + entry.coordinatorEpoch()
                    + " time " + entry.lastTimestamp() + " txn " + text(entry.currentTxnFirstOffset())
                    + " batches " + (batches.isEmpty() ? "-" : batches));
        });
        lines.addAll(unstable());
        return lines;
    }

    List<String> unstable() {
        ProducerStateManager producers = log.producerStateManager();
        String unstable = producers.firstUnstableOffset().map(offset -> String.valueOf(offset.messageOffset)).orElse("-");
        return List.of("unstable " + unstable + " undecided " + text(producers.firstUndecidedOffset())
                + " end " + producers.mapEndOffset());
    }

    static String text(OptionalLong value) {
        return value.isPresent() ? String.valueOf(value.getAsLong()) : "-";
    }

    public static void main(String[] arguments) throws Exception {
        ProducerLogOracle oracle = null;
        StringBuilder out = new StringBuilder();
        int scripts = 0;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            if (line.startsWith("script ")) {
                if (oracle != null) oracle.log.close();
                oracle = new ProducerLogOracle(new File(arguments[1] + "/" + scripts++ + "/topic-0"));
                out.append(line).append('\n');
                continue;
            }
            out.append("> ").append(line).append('\n');
            for (String answer : oracle.execute(line)) out.append(answer).append('\n');
        }
        if (oracle != null) oracle.log.close();
        SCHEDULER.shutdown();
        Files.writeString(Path.of(arguments[2]), out);
    }
}
