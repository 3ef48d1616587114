// Replays metadata records into Kafka's own image and writes what its image writers make of it.
// Arguments: a file with a record a line (hex, framed as in the log), an empty line after each batch, and the file for
// what the image writes.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class ImageOracle {
    public static void main(String[] arguments) throws Exception {
        MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
        MetadataImage image = MetadataImage.EMPTY;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            if (line.isEmpty()) {
                image = delta.apply(new MetadataProvenance(1, 1, 1, true));
                delta = new MetadataDelta.Builder().setImage(image).build();
                continue;
            }
            byte[] data = HexFormat.of().parseHex(line);
            delta.replay(serde.read(new ByteBufferAccessor(ByteBuffer.wrap(data)), data.length).message());
        }
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(image).build());
        List<String> written = new ArrayList<>();
        for (ApiMessageAndVersion record : writer.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(record, cache));
            serde.write(record, cache, new ByteBufferAccessor(buffer));
            written.add(HexFormat.of().formatHex(buffer.array()));
        }
        Files.write(Path.of(arguments[1]), written);
    }
}
