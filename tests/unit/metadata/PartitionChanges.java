// Asks Kafka's PartitionChangeBuilder what test_kafka_agrees.py asks ours.
// Arguments: a file of questions, a line each, and the file for the answers.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecordJsonConverter;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class PartitionChanges {
    static int[] ids(String text) {
        return text.equals("-") ? new int[0] : java.util.Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    static List<Integer> list(String text) {
        List<Integer> found = new ArrayList<>();
        for (int id : ids(text)) found.add(id);
        return found;
    }

    static Uuid uuid(int number) {
        return new Uuid(7L, number);
    }

    public static void main(String[] arguments) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            answers.add(answer(line.split(" ")));
        }
        Files.write(Path.of(arguments[1]), answers);
    }

    static String answer(String[] word) {
        int at = 0;
        int[] replicas = ids(word[at++]);
        int[] directories = ids(word[at++]);
        Uuid[] uuids = new Uuid[directories.length];
        for (int i = 0; i < uuids.length; i++) uuids[i] = uuid(directories[i]);
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(replicas)
            .setDirectories(uuids)
            .setIsr(ids(word[at++]))
            .setLeader(Integer.parseInt(word[at++]))
            .setLeaderEpoch(3)
            .setPartitionEpoch(4)
            .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(word[at++])))
            .setAddingReplicas(ids(word[at++]))
            .setRemovingReplicas(ids(word[at++]))
            .setElr(ids(word[at++]))
            .setLastKnownElr(ids(word[at++]))
            .build();
        List<Integer> alive = list(word[at++]);
        IntPredicate mayLead = alive::contains;
        MetadataVersion version = MetadataVersion.fromFeatureLevel(Short.parseShort(word[at++]));
        int minIsr = Integer.parseInt(word[at++]);
        boolean hasElr = Boolean.parseBoolean(word[at++]);
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            partition, uuid(99), 5, mayLead, version, minIsr, hasElr);
        builder.setDefaultDirProvider(id -> uuid(1000 + id));
        builder.setElection(PartitionChangeBuilder.Election.valueOf(word[at++]));
        if (!word[at].equals("same")) builder.setTargetIsr(list(word[at]));
        at++;
        if (!word[at].equals("same")) builder.setTargetReplicas(list(word[at]));
        at++;
        if (!word[at].equals("same")) builder.setTargetAdding(list(word[at]));
        at++;
        if (!word[at].equals("same")) builder.setTargetRemoving(list(word[at]));
        at++;
        if (!word[at].equals("same")) builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(word[at])));
        at++;
        if (!word[at].equals("same")) builder.setUncleanShutdownReplicas(list(word[at]));
        at++;
        if (!word[at].equals("same")) builder.setDirectory(ids(word[at])[0], uuid(2000));
        ApiMessageAndVersion built = builder.build().orElse(null);
        if (built == null) return "none";
        String json = PartitionChangeRecordJsonConverter.write((PartitionChangeRecord) built.message(), built.version()).toString();
        return built.version() + " " + json;
    }
}
