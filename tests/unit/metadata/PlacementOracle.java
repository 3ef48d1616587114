// Asks Kafka's StripedReplicaPlacer where replicas go, as test_kafka_agrees.py asks ours.
// Arguments: a file of questions, a line each (seed, partitions, replication factor, and brokers as id:rack:fenced), and
// the file for the answers.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

public class PlacementOracle {
    public static void main(String[] arguments) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] word = line.split(" ");
            List<UsableBroker> brokers = new ArrayList<>();
            for (int i = 3; i < word.length; i++) {
                String[] part = word[i].split(":");
                Optional<String> rack = part[1].equals("-") ? Optional.empty() : Optional.of(part[1]);
                brokers.add(new UsableBroker(Integer.parseInt(part[0]), rack, part[2].equals("fenced")));
            }
            ClusterDescriber cluster = new ClusterDescriber() {
                public Iterator<UsableBroker> usableBrokers() { return brokers.iterator(); }

                public Uuid defaultDir(int id) { return Uuid.ZERO_UUID; }
            };
            try {
                answers.add(new StripedReplicaPlacer(new Random(Long.parseLong(word[0])))
                    .place(new PlacementSpec(0, Integer.parseInt(word[1]), Short.parseShort(word[2])), cluster)
                    .assignments().stream().map(one -> one.replicas().toString()).collect(Collectors.joining(" ")));
            } catch (Exception refused) {
                answers.add(refused.getMessage());
            }
        }
        Files.write(Path.of(arguments[1]), answers);
    }
}
