import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.streams.StreamsGroupCommand;

/** Runs many commands of `kafka-streams-groups` in one process, each a line of standard input. */
public class StreamsTools {
    static class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (message != null)
                System.out.println("! " + message);
            throw new Exited(code);
        });
        String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        for (String line : input.split("\n")) {
            System.out.println("> " + line);
            int code = 0;
            try {
                StreamsGroupCommand.main((line + " --bootstrap-server " + arguments[0]).split(" "));
            } catch (Exited exited) {
                code = exited.code;
            }
            System.out.println("\nexit " + code);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
