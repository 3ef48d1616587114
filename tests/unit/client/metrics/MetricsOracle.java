// Kafka's own statistics and metric names. With `names`: the metrics of each kind of client, `KIND GROUP NAME` a line.
// Otherwise stdin: `new WINDOW_MS SAMPLES`, `record VALUE AT_MS`, `read AT_MS`, the last answered with the rate, the
// rate of the count, the average, the maximum, the minimum and the sum.
// Run with Kafka's jars on the class path: java -cp ... MetricsOracle.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.stats.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class MetricsOracle {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0)
            names();
        else
            statistics();
        System.exit(0);
    }

    static void statistics() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        MetricConfig config = new MetricConfig();
        MeasurableStat[] stats = {};
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "new" -> {
                    config = new MetricConfig().timeWindow(Long.parseLong(words[1]), TimeUnit.MILLISECONDS)
                        .samples(Integer.parseInt(words[2]));
                    stats = new MeasurableStat[] {new Rate(), new Rate(new WindowedCount()), new Avg(), new Max(),
                        new Min(), new CumulativeSum()};
                }
                case "record" -> {
                    for (MeasurableStat stat : stats)
                        stat.record(config, Double.parseDouble(words[1]), Long.parseLong(words[2]));
                }
                case "read" -> {
                    StringBuilder answer = new StringBuilder();
                    for (MeasurableStat stat : stats)
                        answer.append(stat.measure(config, Long.parseLong(words[1]))).append(' ');
                    System.out.println(answer.toString().trim());
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    static void names() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", "localhost:1");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        show("producer", new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer()).metrics());
        show("admin", Admin.create(properties).metrics());
        properties.put("group.id", "g");
        show("share", new KafkaShareConsumer<>(properties, bytes, bytes).metrics());
        properties.put("group.protocol", "classic");
        show("classic", new KafkaConsumer<>(properties, bytes, bytes).metrics());
        properties.put("group.protocol", "consumer");
        show("consumer", new KafkaConsumer<>(properties, bytes, bytes).metrics());
    }

    static void show(String kind, Map<MetricName, ? extends Metric> metrics) {
        TreeSet<String> lines = new TreeSet<>();
        for (MetricName name : metrics.keySet())
            lines.add(kind + " " + name.group() + " " + name.name());
        lines.forEach(System.out::println);
    }
}
