// Kafka's own serializers, driven by stdin: `KIND TEXT` a line, answered with the bytes in hexadecimal.
// Run with Kafka's jars on the class path: java -cp ... Serializers.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;

import org.apache.kafka.common.serialization.*;

public class Serializers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            byte[] bytes = serialize(words[0], words.length > 1 ? words[1] : "");
            System.out.println(bytes == null ? "null" : HexFormat.of().formatHex(bytes));
        }
    }

    static byte[] serialize(String kind, String text) {
        return switch (kind) {
            case "string" -> new StringSerializer().serialize("t", text);
            case "short" -> new ShortSerializer().serialize("t", Short.valueOf(text));
            case "integer" -> new IntegerSerializer().serialize("t", Integer.valueOf(text));
            case "long" -> new LongSerializer().serialize("t", Long.valueOf(text));
            case "float" -> new FloatSerializer().serialize("t", Float.valueOf(text));
            case "double" -> new DoubleSerializer().serialize("t", Double.valueOf(text));
            case "boolean" -> new BooleanSerializer().serialize("t", Boolean.valueOf(text));
            case "uuid" -> new UUIDSerializer().serialize("t", UUID.fromString(text));
            case "strings" -> new ListSerializer<>(new StringSerializer()).serialize("t", items(text, String.class));
            case "integers" -> new ListSerializer<>(new IntegerSerializer()).serialize("t", items(text, Integer.class));
            default -> throw new IllegalArgumentException(kind);
        };
    }

    static <T> List<T> items(String text, Class<T> kind) {
        List<T> found = new ArrayList<>();
        for (String item : text.isEmpty() ? new String[0] : text.split(",", -1))
            found.add(item.equals("-") ? null : kind.cast(kind == Integer.class ? (Object) Integer.valueOf(item) : item));
        return found;
    }
}
