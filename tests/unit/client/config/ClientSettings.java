// What Kafka's own clients say of settings: `KIND name=value;name=value` a line, answered with `ok` or the refusal.
// Run with Kafka's jars on the class path: java -cp ... ClientSettings.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Properties;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ClientSettings {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            Properties properties = new Properties();
            for (String one : words[1].split(";"))
                properties.put(one.substring(0, one.indexOf('=')), one.substring(one.indexOf('=') + 1));
            System.out.println(make(words[0], properties));
        }
        System.exit(0);
    }

    static String make(String kind, Properties properties) {
        try {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            switch (kind) {
                case "producer" ->
                    new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer()).close(Duration.ZERO);
                case "consumer" ->
                    new KafkaConsumer<>(properties, bytes, bytes).close(CloseOptions.timeout(Duration.ZERO));
                case "share" -> new KafkaShareConsumer<>(properties, bytes, bytes).close(Duration.ZERO);
                case "admin" -> Admin.create(properties).close(Duration.ZERO);
                default -> throw new IllegalArgumentException(kind);
            }
            return "ok";
        } catch (Exception error) {
            Throwable root = error;
            while (root.getCause() != null)
                root = root.getCause();
            return String.valueOf(root.getMessage()).replace("\n", " ");
        }
    }
}
