import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * `SteadyMembers ADDRESS TOPIC SESSION_MS`: a member of the group `classic` and one of the group `consumer`, that read
 * and commit until standard input ends. They print `GROUP EVENT PARTITION OFFSET` as it happens.
 */
public class SteadyMembers {
    static final AtomicBoolean isOver = new AtomicBoolean();

    static void print(String group, String event, Map<TopicPartition, OffsetAndMetadata> offsets) {
        offsets.forEach((place, offset) ->
            System.out.println(group + " " + event + " " + place.partition() + " " + offset.offset()));
    }

    static void consume(String address, String topic, String sessionMs, String protocol) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", address, "group.id", protocol,
            "group.protocol", protocol, "enable.auto.commit", "false", "auto.offset.reset", "earliest",
            "reconnect.backoff.max.ms", "200", "fetch.max.wait.ms", "100"));
        // By default a client that has lost its only broker forgets all topics (KIP-899: "Rebootstrapping with ..."), and
        // the leader of a classic group takes that for a change of the topics and joins again. With Kafka it does so too.
        settings.put("metadata.recovery.strategy", "none");
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", sessionMs);
            settings.put("heartbeat.interval.ms", "300");
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    partitions.forEach(one -> System.out.println(protocol + " assigned " + one.partition() + " -1"));
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    partitions.forEach(one -> System.out.println(protocol + " revoked " + one.partition() + " -1"));
                }
            });
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            while (!isOver.get()) {
                offsets.clear();
                consumer.poll(Duration.ofMillis(50)).forEach(record -> {
                    System.out.println(protocol + " read " + record.partition() + " " + record.offset());
                    offsets.put(new TopicPartition(topic, record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                });
                try {
                    if (!offsets.isEmpty()) {
                        consumer.commitSync(offsets);
                        print(protocol, "committed", offsets);
                    }
                } catch (CommitFailedException | RebalanceInProgressException | TimeoutException refused) {
                    // Others have the partitions now, or the next commit says it all.
                    print(protocol, "refused", offsets);
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[2];
        for (int i = 0; i < 2; i++) {
            String protocol = List.of("classic", "consumer").get(i);
            threads[i] = new Thread(() -> consume(arguments[0], arguments[1], arguments[2], protocol));
            threads[i].start();
        }
        while (System.in.read() >= 0) {
            // Whatever is written to it.
        }
        isOver.set(true);
        for (Thread thread : threads)
            thread.join();
    }
}
