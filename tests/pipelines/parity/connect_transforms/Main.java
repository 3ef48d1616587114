import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Kafka Connect's own transformations: a case a line on stdin, and on stdout what became of each of its records. */
public class Main {
    static final ObjectMapper JSON = new ObjectMapper();
    static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode one = JSON.readTree(line);
            out.println(JSON.writeValueAsString(one.has("describe") ? options(one.get("describe")) : results(one)));
        }
    }

    /** The options of a transformation or a predicate. */
    static ArrayNode options(JsonNode name) throws Exception {
        Object made = made("", name);
        ArrayNode found = JSON.createArrayNode();
        ConfigDef config = made instanceof Transformation
            ? ((Transformation<?>) made).config() : ((Predicate<?>) made).config();
        config.names().forEach(found::add);
        return found;
    }

    @SuppressWarnings("unchecked")
    static ArrayNode results(JsonNode one) throws Exception {
        List<Transformation<SinkRecord>> chain = new ArrayList<>();
        List<Predicate<SinkRecord>> predicates = new ArrayList<>();
        List<Boolean> negations = new ArrayList<>();
        for (JsonNode step : one.get("steps")) {
            var transform = (Transformation<SinkRecord>) made("org.apache.kafka.connect.transforms.", step.get("type"));
            transform.configure(texts(step.get("config")));
            chain.add(transform);
            Predicate<SinkRecord> predicate = null;
            if (step.hasNonNull("predicate")) {
                predicate = (Predicate<SinkRecord>) made(
                    "org.apache.kafka.connect.transforms.predicates.", step.get("predicate").get("type"));
                predicate.configure(texts(step.get("predicate")));
            }
            predicates.add(predicate);
            negations.add(step.path("negate").asBoolean());
        }
        Schema keySchema = schema(one.get("key"));
        Schema valueSchema = schema(one.get("value"));
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode input : one.get("records")) {
            SinkRecord record = record(input, keySchema, valueSchema);
            ObjectNode result = results.addObject();
            try {
                for (int index = 0; index < chain.size() && record != null; index++) {
                    Predicate<SinkRecord> predicate = predicates.get(index);
                    if (predicate == null || predicate.test(record) != negations.get(index)) {
                        record = chain.get(index).apply(record);
                    }
                }
                if (record == null) {
                    result.put("dropped", true);
                    continue;
                }
                result.put("topic", record.topic());
                result.set("key", shown(record.keySchema(), record.key()));
                result.set("value", shown(record.valueSchema(), record.value()));
                ArrayNode headers = result.putArray("headers");
                for (Header header : record.headers()) {
                    byte[] bytes = HEADERS.fromConnectHeader("t", header.key(), header.schema(), header.value());
                    headers.addArray().add(header.key()).add(
                        bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
                }
            } catch (Exception error) {
                result.removeAll();
                result.put("error", error.getClass().getName());
            }
        }
        return results;
    }

    static Object made(String where, JsonNode name) throws Exception {
        return Class.forName(where + name.asText()).getDeclaredConstructor().newInstance();
    }

    static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.fields().forEachRemaining(one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    static SinkRecord record(JsonNode input, Schema keySchema, Schema valueSchema) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : input.get("headers")) {
            headers.addString(header.get(0).asText(), header.get(1).asText());
        }
        Object value = object(valueSchema, input.get("value"));
        Object key = object(keySchema, input.get("key"));
        // As converters give null: without a schema.
        return new SinkRecord(
            input.get("topic").asText(), input.get("partition").asInt(), key == null ? null : keySchema, key,
            value == null ? null : valueSchema, value, input.get("offset").asLong(),
            input.get("timestamp").isNull() ? null : input.get("timestamp").asLong(), TimestampType.CREATE_TIME, headers);
    }

    /** A type is a name, or a list of [name, type] for a record, or {"array": type} or {"map": [type, type]}. */
    static Schema schema(JsonNode type) {
        if (type == null || type.isNull()) {
            return null;
        }
        if (type.isArray()) {
            SchemaBuilder builder = SchemaBuilder.struct().optional();
            type.forEach(one -> builder.field(one.get(0).asText(), schema(one.get(1))));
            return builder.build();
        }
        if (type.isObject()) {
            return type.has("array")
                ? SchemaBuilder.array(schema(type.get("array"))).optional().build()
                : SchemaBuilder.map(schema(type.get("map").get(0)), schema(type.get("map").get(1))).optional().build();
        }
        String name = type.asText();
        if (name.startsWith("decimal")) {
            return Decimal.builder(Integer.parseInt(name.substring(7))).optional().build();
        }
        switch (name) {
            case "date": return Date.builder().optional().build();
            case "timestamp": return Timestamp.builder().optional().build();
            default: return new SchemaBuilder(Schema.Type.valueOf(name.toUpperCase())).optional().build();
        }
    }

    static Object object(Schema schema, JsonNode node) {
        if (schema == null || node == null || node.isNull()) {
            return null;
        }
        if (schema.name() != null) {
            switch (schema.name()) {
                case Decimal.LOGICAL_NAME: 
                    return new BigDecimal(node.asText())
                        .setScale(Integer.parseInt(schema.parameters().get(Decimal.SCALE_FIELD)));
                case Date.LOGICAL_NAME: return Date.toLogical(schema, node.asInt());
                default: return Timestamp.toLogical(schema, node.asLong());
            }
        }
        switch (schema.type()) {
            case INT8: return (byte) node.asInt();
            case INT16: return (short) node.asInt();
            case INT32: return node.asInt();
            case INT64: return node.asLong();
            case FLOAT32: return Float.parseFloat(node.asText());
            case FLOAT64: return Double.parseDouble(node.asText());
            case BOOLEAN: return node.asBoolean();
            case STRING: return node.asText();
            case BYTES: return Base64.getDecoder().decode(node.asText());
            case ARRAY:
                List<Object> list = new ArrayList<>();
                node.forEach(one -> list.add(object(schema.valueSchema(), one)));
                return list;
            case MAP:
                Map<Object, Object> map = new LinkedHashMap<>();
                node.forEach(one -> map.put(
                    object(schema.keySchema(), one.get(0)), object(schema.valueSchema(), one.get(1))));
                return map;
            default:
                Struct struct = new Struct(schema);
                for (int index = 0; index < schema.fields().size(); index++) {
                    Field field = schema.fields().get(index);
                    struct.put(field, object(field.schema(), node.get(index)));
                }
                return struct;
        }
    }

    /** A value as [type, text], a record as ["struct", [[name, value], ...]]. */
    static JsonNode shown(Schema schema, Object value) {
        if (value == null) {
            return JSON.nullNode();
        }
        ArrayNode found = JSON.createArrayNode();
        if (schema == null && value instanceof Map) {
            // What was null and had no schema, and now is inside something.
            ArrayNode fields = found.add("struct").addArray();
            ((Map<?, ?>) value).forEach((key, one) -> fields.addArray().add((String) key).add(shown(null, one)));
            return found;
        }
        if (schema != null && schema.name() != null) {
            switch (schema.name()) {
                case Decimal.LOGICAL_NAME:
                    return found.add("decimal").add(((BigDecimal) value).stripTrailingZeros().toPlainString());
                case Date.LOGICAL_NAME:
                    return found.add("date").add(Integer.toString(Date.fromLogical(schema, (java.util.Date) value)));
                default:
                    return found.add("timestamp").add(Long.toString(((java.util.Date) value).getTime()));
            }
        }
        Schema.Type type = schema == null ? ConnectSchema.schemaType(value.getClass()) : schema.type();
        found.add(type.getName());
        switch (type) {
            case FLOAT32: return found.add(Integer.toString(Float.floatToIntBits((Float) value)));
            case FLOAT64: return found.add(Long.toString(Double.doubleToLongBits((Double) value)));
            case BYTES:
                byte[] bytes = value instanceof ByteBuffer ? ((ByteBuffer) value).array() : (byte[]) value;
                return found.add(Base64.getEncoder().encodeToString(bytes));
            case ARRAY:
                ArrayNode list = found.addArray();
                ((List<?>) value).forEach(one -> list.add(shown(schema.valueSchema(), one)));
                return found;
            case MAP:
                ArrayNode map = found.addArray();
                ((Map<?, ?>) value).forEach((key, one) -> map.addArray()
                    .add(shown(schema.keySchema(), key)).add(shown(schema.valueSchema(), one)));
                return found;
            case STRUCT:
                ArrayNode fields = found.addArray();
                Struct struct = (Struct) value;
                struct.schema().fields().forEach(
                    field -> fields.addArray().add(field.name()).add(shown(field.schema(), struct.get(field))));
                return found;
            default: return found.add(value.toString());
        }
    }
}
