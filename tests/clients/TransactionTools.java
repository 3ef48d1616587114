import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.TransactionsCommand;
import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumerOptions;

/** Runs many commands of Kafka's tools in one process, each a line of standard input: `transactions list`, ... */
public class TransactionTools {
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
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        byte[] input = System.in.readAllBytes();
        for (String line : new String(input, StandardCharsets.UTF_8).split("\n")) {
            System.out.println("> " + line);
            List<String> words = List.of(line.split(" "));
            String[] rest = words.subList(1, words.size()).toArray(new String[0]);
            int code = 0;
            try {
                if (words.get(0).equals("transactions"))
                    TransactionsCommand.main(rest);
                else
                    ConsoleConsumer.run(new ConsoleConsumerOptions(rest));
            } catch (Exited exited) {
                code = exited.code;
            }
            System.out.println("\nexit " + code);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
