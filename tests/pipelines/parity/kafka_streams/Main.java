import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.UsePartitionTimeOnInvalidTimestamp;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.Stores;

/**
 * What `topologies.py` has, on Kafka Streams: reads all there is in the input topics, writes the results and ends.
 * Arguments: bootstrap address, application id, state directory, what begins the names of topics, names of topologies
 * with commas between (or `all`), then settings as name=value.
 */
public class Main {
    private static final Duration GRACE = Duration.ofSeconds(5);
    private static final ValueJoiner<String, String, String> PAIR = (left, right) -> left + "+" + right;

    private static StreamsBuilder builder;
    private static List<String> wanted;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        for (String setting : Arrays.asList(arguments).subList(5, arguments.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        builder = new StreamsBuilder();
        wanted = Arrays.asList(arguments[4].split(","));
        String at = arguments[3] + "-";
        build(at);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        long begun = System.nanoTime();
        streams.start();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            while (failed.getCount() > 0 && !isDone(admin, arguments[1], at)) {
                Thread.sleep(20);
            }
        }
        System.out.println("SECONDS " + (System.nanoTime() - begun) / 1e9);
        streams.close(Duration.ofSeconds(30));
        System.exit(failed.getCount() > 0 ? 0 : 1);
    }

    private static void build(String at) {
        if (wants("words")) {
            words(at);
        }
        if (wants("windows")) {
            windows(at);
        }
        if (wants("joins")) {
            joins(at);
        }
        if (wants("tables")) {
            tables(at);
        }
        if (wants("groups")) {
            groups(at);
        }
        if (wants("times")) {
            times(at);
        }
        if (wants("routes")) {
            routes(at);
        }
        if (wants("cogroups")) {
            cogroups(at);
        }
        if (wants("versions")) {
            versions(at);
        }
    }

    private static boolean wants(String name) {
        return wanted.contains("all") || wanted.contains(name);
    }

    private static void words(String at) {
        KStream<String, String> lines = builder.stream(at + "lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(at + "words");
    }

    private static void windows(String at) {
        KStream<String, String> left = builder.stream(at + "left");
        KGroupedStream<String, String> grouped = left.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        TimeWindows tumbling = TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), GRACE);
        TimeWindows hopping = tumbling.advanceBy(Duration.ofSeconds(4));
        SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(6), Duration.ofMillis(5037));
        SessionWindows session = SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(1), GRACE);
        emitBoth(grouped.windowedBy(tumbling).count(), at + "tumbling");
        emit(grouped.windowedBy(hopping).count(), at + "hopping");
        emit(grouped.windowedBy(hopping).emitStrategy(EmitStrategy.onWindowClose()).count(), at + "hopping-final");
        emitBoth(grouped.windowedBy(sliding).count(), at + "sliding");
        emitBoth(grouped.windowedBy(session).count(), at + "session");
    }

    private static void emitBoth(KTable<Windowed<String>, Long> counts, String topic) {
        emit(counts, topic);
        emit(counts.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded())), topic + "-final");
    }

    private static void emit(KTable<Windowed<String>, Long> counts, String topic) {
        counts.toStream()
            .map((window, count) -> KeyValue.pair(
                window.key() + "@" + window.window().start() + "-" + window.window().end(),
                count == null ? null : Long.toString(count)))
            .to(topic);
    }

    private static void joins(String at) {
        KStream<String, String> left = builder.stream(at + "near-left");
        KStream<String, String> right = builder.stream(at + "near-right");
        KTable<String, String> table = builder.table(at + "near-table");
        JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(1), Duration.ofSeconds(20));
        left.join(right, PAIR, near).to(at + "inner");
        left.leftJoin(right, PAIR, near).to(at + "left-join");
        left.outerJoin(right, PAIR, near).to(at + "outer");
        left.join(table, PAIR).to(at + "table-inner");
        left.leftJoin(table, PAIR).to(at + "table-left");
    }

    private static void tables(String at) {
        KTable<String, String> one = builder.table(at + "table-one");
        KTable<String, String> two = builder.table(at + "table-two");
        one.join(two, PAIR).toStream().to(at + "both");
        one.leftJoin(two, PAIR).toStream().to(at + "one");
        one.outerJoin(two, PAIR).toStream().to(at + "either");
        KTable<String, String> orders = builder.table(at + "orders");
        KTable<String, String> customers = builder.table(at + "customers");
        orders.join(customers, order -> order.split(":")[0], PAIR).toStream().to(at + "orders-inner");
        orders.leftJoin(customers, order -> order.split(":")[0], PAIR).toStream().to(at + "orders-left");
    }

    private static void groups(String at) {
        KTable<String, String> rows = builder.table(at + "rows");
        KGroupedTable<String, String> grouped = rows.filter((key, row) -> row.length() % 5 > 0).groupBy(
            (key, row) -> KeyValue.pair(row.split(":")[0], row.split(":")[1]),
            Grouped.with(Serdes.String(), Serdes.String()));
        grouped.count().toStream().mapValues(count -> Long.toString(count)).to(at + "group-counts");
        grouped.reduce(
            (sum, number) -> Integer.toString(Integer.parseInt(sum) + Integer.parseInt(number)),
            (sum, number) -> Integer.toString(Integer.parseInt(sum) - Integer.parseInt(number)))
            .toStream().to(at + "group-sums");
        grouped.aggregate(
            () -> "",
            (key, number, list) -> Stream.concat(members(list), Stream.of(number)).sorted()
                .collect(Collectors.joining(",")),
            (key, number, list) -> {
                String rest = members(list).filter(one -> !one.equals(number)).collect(Collectors.joining(","));
                return rest.isEmpty() ? null : rest;
            })
            .toStream().to(at + "group-lists");
    }

    private static Stream<String> members(String list) {
        return Arrays.stream(list.split(",")).filter(one -> !one.isEmpty());
    }

    private static void times(String at) {
        timed(at + "times-skip", new LogAndSkipOnInvalidTimestamp()).to(at + "times-skipped");
        timed(at + "times-partition", new UsePartitionTimeOnInvalidTimestamp()).to(at + "times-stamped");
        KStream<String, String> said = timed(at + "times-payload", (record, partitionTime) -> said(record, -1L));
        said.to(at + "times-said");
        TimeWindows windows = TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), GRACE);
        emit(said.groupByKey().windowedBy(windows).count(), at + "times-said-windows");
        KStream<String, String> previous =
            timed(at + "times-previous", (record, partitionTime) -> said(record, partitionTime + 7));
        JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(1), Duration.ofSeconds(20));
        said.join(previous, PAIR, near).to(at + "times-joined");
    }

    private static KStream<String, String> timed(String topic, TimestampExtractor extractor) {
        return builder.stream(topic, Consumed.<String, String>with(extractor));
    }

    private static long said(ConsumerRecord<Object, Object> record, long otherwise) {
        String said = ((String) record.value()).split(":")[1];
        return said.equals("none") ? otherwise : Long.parseLong(said);
    }

    private static void routes(String at) {
        KStream<String, String> routed = builder.<String, String>stream(at + "routed").process(Router::new);
        KStream<String, String> left = routed.filter((key, value) -> true, Named.as("left-way"));
        left.to(at + "routed-left");
        left.to((key, value, context) -> at + "routed-to-" + Integer.parseInt(value.substring(1)) % 2);
        routed.mapValues(value -> value + "!", Named.as("right-way")).to(at + "routed-right");
        routed.to(at + "routed-all");
        routed.repartition(Repartitioned.as("rest")).to(at + "routed-rest");
    }

    private static class Router extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            int number = Integer.parseInt(record.value().substring(1));
            RecordMetadata metadata = context().recordMetadata().get();
            String place = metadata.partition() + "/" + metadata.offset();
            Headers headers = new RecordHeaders(record.headers()).add("place", place.getBytes());
            Record<String, String> marked = record.withHeaders(headers);
            if (number % 4 == 0 || number % 4 == 3) {
                context().forward(marked, "left-way");
            }
            if (number % 4 == 1 || number % 4 == 3) {
                context().forward(
                    record.withValue(record.value() + "?").withTimestamp(record.timestamp() + 5), "right-way");
            }
            if (number % 4 == 2) {
                context().forward(marked.withKey(record.key() + "+"));
            }
        }
    }

    private static void cogroups(String at) {
        KGroupedStream<String, String> one = builder.<String, String>stream(at + "group-a").groupByKey();
        KGroupedStream<String, String> two = builder.<String, String>stream(at + "group-b").groupByKey();
        CogroupedKStream<String, String> both = one
            .<String>cogroup((key, value, sum) -> mixed(sum, 31, value))
            .cogroup(two, (key, value, sum) -> mixed(sum, 17, value));
        both.aggregate(() -> "0", Materialized.with(Serdes.String(), Serdes.String())).toStream().to(at + "cogrouped");
        TimeWindows tumbling = TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), GRACE);
        TimeWindows hopping = tumbling.advanceBy(Duration.ofSeconds(4));
        SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(6), Duration.ofMillis(5037));
        SessionWindows session = SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(1), GRACE);
        showBoth(
            both.windowedBy(tumbling).aggregate(() -> "0", Materialized.with(Serdes.String(), Serdes.String())),
            at + "cogrouped-tumbling");
        showBoth(
            both.windowedBy(hopping).aggregate(() -> "0", Materialized.with(Serdes.String(), Serdes.String())),
            at + "cogrouped-hopping");
        showBoth(
            both.windowedBy(sliding).aggregate(() -> "0", Materialized.with(Serdes.String(), Serdes.String())),
            at + "cogrouped-sliding");
        showBoth(
            both.windowedBy(session).aggregate(
                () -> "0",
                (key, left, right) -> mixed(left, 7, right),
                Materialized.with(Serdes.String(), Serdes.String())),
            at + "cogrouped-session");
    }

    private static String mixed(String sum, int factor, String value) {
        return Long.toString(
            (Long.parseLong(sum) * factor + Long.parseLong(value.replaceAll("\\D", "")) + 1) % 1_000_003);
    }

    private static void showBoth(KTable<Windowed<String>, String> table, String topic) {
        show(table, topic);
        show(table.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded())), topic + "-final");
    }

    private static void show(KTable<Windowed<String>, String> table, String topic) {
        table.toStream()
            .map((window, value) -> KeyValue.pair(
                window.key() + "@" + window.window().start() + "-" + window.window().end(), value))
            .to(topic);
    }

    private static void versions(String at) {
        KStream<String, String> stream = builder.stream(at + "as-of");
        KTable<String, String> table = versioned(at + "versions");
        KTable<String, String> other = versioned(at + "versions-two");
        stream.join(table, PAIR).to(at + "as-of-inner");
        stream.leftJoin(table.filter((key, row) -> row.length() % 5 > 0), PAIR).to(at + "as-of-left");
        table.toStream().to(at + "versions-rows");
        table.join(other, PAIR).toStream().to(at + "versions-both");
        table.outerJoin(other, PAIR).toStream().to(at + "versions-outer");
        table.groupBy(
            (key, row) -> KeyValue.pair(row.split(":")[0], row.split(":")[1]),
            Grouped.with(Serdes.String(), Serdes.String())).reduce(
            (sum, number) -> Integer.toString(Integer.parseInt(sum) + Integer.parseInt(number)),
            (sum, number) -> Integer.toString(Integer.parseInt(sum) - Integer.parseInt(number)))
            .toStream().to(at + "versions-sums");
    }

    private static KTable<String, String> versioned(String topic) {
        return builder.table(topic, Materialized.<String, String>as(
            Stores.persistentVersionedKeyValueStore("store-of-" + topic, Duration.ofSeconds(5)))
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
    }

    /**
     * Everything is consumed, the application's own topics too. What is committed is asked for before the ends: results
     * are written before offsets are committed, so what is equal then stays equal.
     */
    private static boolean isDone(Admin admin, String application, String at) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed =
            admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
        List<String> topics = admin.listTopics().names().get().stream()
            .filter(topic -> topic.startsWith(application + "-") && !topic.endsWith("-changelog"))
            .collect(Collectors.toList());
        for (TopicPartition partition : committed.keySet()) {
            if (!topics.contains(partition.topic())) {
                topics.add(partition.topic());
            }
        }
        inputs(at).stream().filter(topic -> !topics.contains(topic)).forEach(topics::add);
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (TopicDescription topic : admin.describeTopics(topics).allTopicNames().get().values()) {
            topic.partitions().forEach(
                info -> asked.put(new TopicPartition(topic.name(), info.partition()), OffsetSpec.latest()));
        }
        return admin.listOffsets(asked).all().get().entrySet().stream().allMatch(end -> {
            OffsetAndMetadata offset = committed.get(end.getKey());
            return end.getValue().offset() == (offset == null ? 0 : offset.offset());
        });
    }

    private static List<String> inputs(String at) {
        Map<String, List<String>> inputs = Map.of(
            "words", List.of("lines"),
            "windows", List.of("left"),
            "joins", List.of("near-left", "near-right", "near-table"),
            "tables", List.of("table-one", "table-two", "orders", "customers"),
            "groups", List.of("rows"),
            "times", List.of("times-skip", "times-partition", "times-payload", "times-previous"),
            "routes", List.of("routed"),
            "cogroups", List.of("group-a", "group-b"),
            "versions", List.of("as-of", "versions", "versions-two"));
        return inputs.keySet().stream().filter(Main::wants).flatMap(name -> inputs.get(name).stream())
            .map(name -> at + name).toList();
    }
}
