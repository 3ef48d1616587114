// Kafka's own record classes, asked from a file: one question a line, and one line of output for each.
// Run from its source by test_kafka_agrees.py, with Kafka's jars on the class path.
//
//   read HEX                             what the batches hold, or the exception that Kafka raises
//   decompress CODEC HEX                 the stream's content
//   build FIELDS RECORD...               the bytes of a batch
//   filter HEX NOW RETENTION OFFSET,...  the bytes that the cleaner would write, the listed offsets retained
//   convert HEX FIELDS                   the bytes that a leader would append for another codec

import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

public class KafkaRecords {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = switch (words[0]) {
                    case "read" -> read(bytes(words[1]));
                    case "decompress" -> decompress(words[1], bytes(words[2]));
                    case "build" -> build(words);
                    case "filter" -> filter(words);
                    case "convert" -> convert(words);
                    default -> throw new IllegalStateException("no such question: " + words[0]);
                };
            } catch (Exception | Error error) {
                answer = "error " + error.getClass().getSimpleName();
            }
            System.out.println(answer);
        }
    }

    private static String read(byte[] data) {
        StringBuilder answer = new StringBuilder("ok");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            answer.append(" batch:").append(batch.baseOffset()).append(',').append(batch.lastOffset()).append(',')
                .append(batch.partitionLeaderEpoch()).append(',').append(batch.maxTimestamp()).append(',')
                .append(batch.producerId()).append(',').append(batch.producerEpoch()).append(',')
                .append(batch.baseSequence()).append(',').append(batch.lastSequence()).append(',')
                .append(batch.compressionType().name).append(',').append(batch.timestampType().id).append(',')
                .append(batch.isTransactional() ? 1 : 0).append(',').append(batch.isControlBatch() ? 1 : 0).append(',')
                .append(batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : "none");
            for (Record record : batch) {
                answer.append(" record:").append(record.offset()).append(',').append(record.timestamp()).append(',')
                    .append(hex(record.key())).append(',').append(hex(record.value()));
                for (Header header : record.headers())
                    answer.append(',').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)))
                        .append('=').append(header.value() == null ? "null" : HEX.formatHex(header.value()));
            }
        }
        return answer.toString();
    }

    private static String decompress(String codec, byte[] data) throws Exception {
        Compression compression = Compression.of(codec).build();
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        try (InputStream stream = compression.wrapForInput(ByteBuffer.wrap(data), RecordBatch.MAGIC_VALUE_V2,
                BufferSupplier.NO_CACHING)) {
            byte[] part = new byte[4096];
            for (int count = stream.read(part, 0, part.length); count != -1; count = stream.read(part, 0, part.length))
                content.write(part, 0, count);
        }
        return "ok " + HEX.formatHex(content.toByteArray());
    }

    // baseOffset,codec,timestampType,appendTime,producerId,producerEpoch,baseSequence,transactional,control,
    // leaderEpoch,deleteHorizon; a record is offset,timestamp,key,value,header=value,...
    private static String build(String[] words) {
        String[] fields = words[1].split(",", -1);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024),
            RecordBatch.CURRENT_MAGIC_VALUE, Compression.of(fields[1]).build(),
            TimestampType.forName(fields[2]), Long.parseLong(fields[0]), Long.parseLong(fields[3]),
            Long.parseLong(fields[4]), Short.parseShort(fields[5]), Integer.parseInt(fields[6]),
            fields[7].equals("1"), fields[8].equals("1"), Integer.parseInt(fields[9]), Integer.MAX_VALUE,
            Long.parseLong(fields[10]));
        for (String word : Arrays.asList(words).subList(2, words.length)) {
            String[] parts = word.split(",", -1);
            List<Header> headers = new ArrayList<>();
            for (String header : Arrays.asList(parts).subList(4, parts.length)) {
                String[] pair = header.split("=", -1);
                headers.add(new RecordHeader(new String(HEX.parseHex(pair[0]), StandardCharsets.UTF_8),
                    pair[1].equals("null") ? null : HEX.parseHex(pair[1])));
            }
            Header[] array = headers.toArray(new Header[0]);
            long offset = Long.parseLong(parts[0]);
            long timestamp = Long.parseLong(parts[1]);
            if (fields[8].equals("1"))
                builder.appendControlRecordWithOffset(offset,
                    new SimpleRecord(timestamp, nullable(parts[2]),
                        nullable(parts[3]), array));
            else
                builder.appendWithOffset(offset, timestamp, nullable(parts[2]), nullable(parts[3]), array);
        }
        return "ok " + hex(builder.build().buffer());
    }

    private static String filter(String[] words) {
        Set<Long> retained = new HashSet<>();
        for (String offset : words[4].split(","))
            if (!offset.isEmpty())
                retained.add(Long.parseLong(offset));
        MemoryRecords.RecordFilter filter =
            new MemoryRecords.RecordFilter(Long.parseLong(words[2]), Long.parseLong(words[3])) {
                @Override
                protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                    return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, batch.isControlBatch());
                }

                @Override
                protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                    return retained.contains(record.offset());
                }
            };
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(words[1])));
        MemoryRecords.FilterResult result =
            records.filterTo(filter, ByteBuffer.allocate(1 << 20), BufferSupplier.NO_CACHING);
        ByteBuffer output = result.outputBuffer();
        output.flip();
        return "ok " + hex(output);
    }

    // baseOffset,codec,timestampType,appendTime,leaderEpoch
    private static String convert(String[] words) {
        String[] fields = words[2].split(",", -1);
        MutableRecordBatch batch =
            MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(words[1]))).batches().iterator().next();
        long offset = Long.parseLong(fields[0]);
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20),
            RecordBatch.CURRENT_MAGIC_VALUE, Compression.of(fields[1]).build(), TimestampType.forName(fields[2]),
            offset, Long.parseLong(fields[3]), batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
            batch.isTransactional(), Integer.parseInt(fields[4]));
        for (Record record : batch)
            builder.appendWithOffset(offset++, record);
        return "ok " + hex(builder.build().buffer());
    }

    private static byte[] bytes(String hex) {
        return HEX.parseHex(hex);
    }

    private static byte[] nullable(String hex) {
        return hex.equals("null") ? null : HEX.parseHex(hex);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return HEX.formatHex(data);
    }
}
