import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Prints the words in the order of a HashMap, and partitions of topics named after them in the order of another. */
public class JavaOrder {
    public static void main(String[] words) {
        Map<String, Integer> map = new HashMap<>();
        Map<TopicPartition, Integer> partitions = new HashMap<>();
        for (int i = 0; i < words.length; i++) {
            map.put(words[i], i);
            partitions.put(new TopicPartition(words[i], i % 7), i);
        }
        map.keySet().forEach(System.out::println);
        partitions.keySet().forEach(System.out::println);
    }
}
