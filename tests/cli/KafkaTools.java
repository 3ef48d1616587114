import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main classes of Kafka's tools one after another in one process: a line of standard input is the class, a file
 * for its standard input (or -) and its arguments, with tabs between. The answer is a line with the exit code and the
 * sizes of what it printed to standard output and standard error, and then both.
 */
public class KafkaTools {
    static Integer exitCode;

    /** Stands for the end of the process. A tool may catch it and exit again: the first code is what counts. */
    static class Exited extends RuntimeException {
        Exited(int code) {
            if (exitCode == null)
                exitCode = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        PrintStream answers = System.out;
        PrintStream complaints = System.err;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            InputStream in = words[1].equals("-") ? new ByteArrayInputStream(new byte[0]) : new FileInputStream(words[1]);
            exitCode = null;
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            System.setIn(in);
            try {
                Class.forName(words[0]).getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 2, words.length));
            } catch (InvocationTargetException e) {
                if (exitCode == null) {
                    e.getCause().printStackTrace(System.err);
                    exitCode = 1;
                }
            } finally {
                System.out.flush();
                System.err.flush();
                System.setOut(answers);
                System.setErr(complaints);
            }
            answers.println((exitCode == null ? 0 : exitCode) + " " + out.size() + " " + err.size());
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
    }
}
