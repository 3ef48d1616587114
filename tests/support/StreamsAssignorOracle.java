import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Kafka's sticky task assignor: a group a line on standard input, its assignment a line on standard output. */
public class StreamsAssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        }
    }

    private static Map<String, List<Map<String, Set<Integer>>>> assign(JsonNode group) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            members.put(member.get("id").asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.get("active")), tasks(member.get("standby")), Map.of(),
                member.get("process").asText(), Map.of(), Map.of(), Map.of()));
        }
        JsonNode subtopologies = group.get("subtopologies");
        TopologyDescriber topology = new TopologyDescriber() {
            public List<String> subtopologies() {
                List<String> names = new ArrayList<>();
                subtopologies.fieldNames().forEachRemaining(names::add);
                return names;
            }

            public int maxNumInputPartitions(String id) {
                return subtopologies.get(id).get("tasks").asInt();
            }

            public boolean isStateful(String id) {
                return subtopologies.get(id).get("stateful").asBoolean();
            }
        };
        GroupSpecImpl spec = new GroupSpecImpl(members, Map.of("num.standby.replicas", group.get("standbys").asText()));
        Map<String, List<Map<String, Set<Integer>>>> found = new TreeMap<>();
        for (Map.Entry<String, MemberAssignment> one : new StickyTaskAssignor().assign(spec, topology).members().entrySet()) {
            found.put(one.getKey(), List.of(sorted(one.getValue().activeTasks()), sorted(one.getValue().standbyTasks())));
        }
        return found;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> all = node.fields(); all.hasNext(); ) {
            Map.Entry<String, JsonNode> one = all.next();
            Set<Integer> partitions = new HashSet<>();
            one.getValue().forEach(partition -> partitions.add(partition.asInt()));
            tasks.put(one.getKey(), partitions);
        }
        return tasks;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        tasks.forEach((id, partitions) -> found.put(id, new TreeSet<>(partitions)));
        return found;
    }
}
