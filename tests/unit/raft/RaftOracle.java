import java.io.File;
import java.nio.file.Path;
import java.util.Arrays;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.FileQuorumStateStore;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotReader;
import org.apache.kafka.snapshot.SnapshotPath;
import org.apache.kafka.snapshot.Snapshots;

/** What Kafka's own classes read from a metadata directory: the election, and every snapshot with its records. */
public class RaftOracle {
    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        var store = new FileQuorumStateStore(directory.resolve("quorum-state").toFile());
        var election = store.readElectionState().get();
        System.out.println("election epoch=" + election.epoch() + " leader=" + election.leaderIdOrSentinel()
            + " voted=" + election.optionalVotedKey().map(key -> key.id()).orElse(-1));
        File[] files = directory.toFile().listFiles();
        Arrays.sort(files);
        for (File file : files) {
            SnapshotPath path = Snapshots.parse(file.toPath()).orElse(null);
            if (path != null && !path.partial() && !path.deleted()) {
                read(directory, path.snapshotId());
            }
        }
    }

    private static void read(Path directory, OffsetAndEpoch id) {
        try (var raw = FileRawSnapshotReader.open(directory, id);
             var reader = RecordsSnapshotReader.of(raw, new MetadataRecordSerde(), BufferSupplier.create(),
                 8 * 1024 * 1024, true, new LogContext(""))) {
            System.out.println("snapshot " + id.offset() + "-" + id.epoch()
                + " timestamp=" + reader.lastContainedLogTimestamp());
            while (reader.hasNext()) {
                Batch<ApiMessageAndVersion> batch = reader.next();
                for (ControlRecord record : batch.controlRecords()) {
                    System.out.println("  control " + record.type());
                }
                for (ApiMessageAndVersion record : batch.records()) {
                    System.out.println("  " + record.message().getClass().getSimpleName() + " " + record.version());
                }
            }
        }
    }
}
