import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs many commands of Kafka's tools for clusters in one process, each a line of standard input, against the brokers
 * at the first argument or, where the line begins with `controller`, the controllers at the second. `await-config`
 * waits until every broker tells a value of a dynamic setting: what is changed at one is heard of by the others later.
 */
public class ClusterTools {
    static Integer exitCode;

    /** Stands for the end of the process. A tool may catch it and exit again: the first code is what counts. */
    static class Exited extends RuntimeException {
        Exited(int code) {
            if (exitCode == null)
                exitCode = code;
        }
    }

    static void execute(String tool, String[] arguments) throws Exception {
        switch (tool) {
            case "api-versions" -> org.apache.kafka.tools.BrokerApiVersionsCommand.main(arguments);
            case "cluster" -> org.apache.kafka.tools.ClusterTool.main(arguments);
            case "configs" -> kafka.admin.ConfigCommand.main(arguments);
            case "features" -> org.apache.kafka.tools.FeatureCommand.main(arguments);
            case "get-offsets" -> org.apache.kafka.tools.GetOffsetShell.main(arguments);
            case "leader-election" -> org.apache.kafka.tools.LeaderElectionCommand.main(arguments);
            case "log-dirs" -> org.apache.kafka.tools.LogDirsCommand.main(arguments);
            case "metadata-quorum" -> org.apache.kafka.tools.MetadataQuorumCommand.main(arguments);
            case "reassign" -> org.apache.kafka.tools.reassign.ReassignPartitionsCommand.main(arguments);
            case "topics" -> org.apache.kafka.tools.TopicCommand.main(arguments);
            default -> throw new IllegalArgumentException(tool);
        }
    }

    static void awaitConfig(String address, String broker, String name, String value) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.BROKER, broker);
        var end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            while (!value.equals(admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value())) {
                if (System.nanoTime() > end)
                    throw new IllegalStateException(broker + " does not hear of " + name + "=" + value);
                Thread.sleep(20);
            }
        }
    }

    public static void main(String[] addresses) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (message != null)
                System.out.println("! " + message);
            throw new Exited(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        System.setErr(System.out);
        String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        for (String line : input.split("\n")) {
            System.out.println("> " + line);
            List<String> words = List.of(line.split(" "));
            boolean isForControllers = words.get(0).equals("controller");
            if (isForControllers)
                words = words.subList(1, words.size());
            // The cluster tool has its address after the name of what it is to do.
            int place = words.get(0).equals("cluster") ? 2 : 1;
            var arguments = new java.util.ArrayList<>(words.subList(1, words.size()));
            arguments.addAll(place - 1, isForControllers
                ? List.of("--bootstrap-controller", addresses[1]) : List.of("--bootstrap-server", addresses[0]));
            exitCode = null;
            try {
                if (words.get(0).equals("await-config"))
                    awaitConfig(addresses[0], words.get(1), words.get(2), words.get(3));
                else
                    execute(words.get(0), arguments.toArray(new String[0]));
            } catch (Exited exited) {
                // its code is known
            } catch (Exception error) {
                System.out.println(error);
                exitCode = 1;
            }
            System.out.println("\nexit " + (exitCode == null ? 0 : exitCode));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
