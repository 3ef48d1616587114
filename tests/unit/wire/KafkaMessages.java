// Kafka's own messages: reads lines `name version hex`, and answers each with what Kafka's generated class makes of
// the bytes: `ok <bytes read> <hex of what it writes>`, or `error <why>`.
// Run with Kafka's jars on the class path: java -cp ... KafkaMessages.java QUESTIONS ANSWERS

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class KafkaMessages {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.raft.generated.",
    };
    static final Map<String, Class<?>> CLASSES = new HashMap<>();

    static Class<?> find(String name) {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    return Class.forName(prefix + name + suffix);
                } catch (ClassNotFoundException next) {
                    // another package has it
                }
            }
        }
        throw new IllegalArgumentException("no class for " + name);
    }

    static String answer(String name, short version, byte[] bytes) throws Exception {
        Message message = (Message) CLASSES.computeIfAbsent(name, KafkaMessages::find).getConstructor().newInstance();
        ByteBuffer in = ByteBuffer.wrap(bytes);
        try {
            message.read(new ByteBufferAccessor(in), version);
            int read = in.position();
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(out), cache, version);
            out.flip();
            byte[] written = new byte[out.remaining()];
            out.get(written);
            return "ok " + read + " " + HexFormat.of().formatHex(written);
        } catch (RuntimeException | AssertionError wrong) {
            return "error " + wrong.getClass().getSimpleName() + ": " + String.valueOf(wrong.getMessage()).replace('\n', ' ');
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader questions = Files.newBufferedReader(Path.of(arguments[0]));
             BufferedWriter answers = Files.newBufferedWriter(Path.of(arguments[1]))) {
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                String[] words = line.split(" ", -1);
                byte[] bytes = HexFormat.of().parseHex(words[2]);
                answers.write(answer(words[0], Short.parseShort(words[1]), bytes));
                answers.newLine();
            }
        }
    }
}
