import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.ConsumerPerformance;
import org.apache.kafka.tools.GroupsCommand;
import org.apache.kafka.tools.VerifiableConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumerOptions;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;
import org.apache.kafka.tools.consumer.group.ShareGroupCommand;

/**
 * Runs many commands of Kafka's tools for groups in one process, each a line of standard input, first against one
 * address and then against the next. `consumer-groups --list` runs a tool. `join NAME GROUP PROTOCOL TOPICS [INSTANCE]`
 * starts a member that polls until `leave NAME`; `await GROUP MEMBERS` returns when the group is stable with so many.
 */
public class GroupTools {
    static final long PATIENCE_MS = 60_000;
    static String address;
    static Admin admin;
    static final Map<String, Member> members = new HashMap<>();
    static Integer exitCode;

    /** Stands for the end of the process. A tool may catch it and exit again: the first code is what counts. */
    static class Exited extends RuntimeException {
        Exited(int code) {
            if (exitCode == null)
                exitCode = code;
        }
    }

    /** One consumer, polled by a thread of its own. */
    static class Member extends Thread {
        final List<String> words;
        final AtomicBoolean isOver = new AtomicBoolean();

        Member(List<String> words) {
            this.words = words;
            setDaemon(true);
        }

        @Override
        public void run() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", address);
            settings.put("client.id", words.get(1));
            settings.put("group.id", words.get(2));
            List<String> topics = List.of(words.get(4).split(","));
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            if (words.get(3).equals("share")) {
                try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings, bytes, bytes)) {
                    consumer.subscribe(topics);
                    while (!isOver.get())
                        consumer.poll(Duration.ofMillis(20));
                }
                return;
            }
            settings.put("group.protocol", words.get(3));
            if (words.get(3).equals("classic"))
                settings.put("heartbeat.interval.ms", "300");
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            if (words.size() > 5)
                settings.put("group.instance.id", words.get(5));
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
                consumer.subscribe(topics);
                while (!isOver.get())
                    consumer.poll(Duration.ofMillis(20));
            }
        }
    }

    static void await(String group, int count) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            boolean isShare = group.startsWith("share");
            GroupState state = GroupState.UNKNOWN;
            int size = 0;
            try {
                if (isShare) {
                    var found = admin.describeShareGroups(List.of(group)).describedGroups().get(group).get();
                    state = found.groupState();
                    size = found.members().size();
                } else {
                    var found = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
                    state = found.groupState();
                    size = found.members().size();
                }
            } catch (ExecutionException error) {
                // On a busy machine the first member may not have joined yet, and with it the group is not there.
                if (!(error.getCause() instanceof GroupIdNotFoundException))
                    throw error;
            }
            if (state == (count == 0 ? GroupState.EMPTY : GroupState.STABLE) && size == count)
                return;
            if (System.currentTimeMillis() > deadline)
                throw new IllegalStateException(group + " is " + state + " with " + size + " members");
            Thread.sleep(50);
        }
    }

    static void execute(List<String> words, String[] rest) throws Exception {
        switch (words.get(0)) {
            case "consumer-groups" -> ConsumerGroupCommand.main(rest);
            case "share-groups" -> ShareGroupCommand.main(rest);
            case "groups" -> GroupsCommand.main(rest);
            case "configs" -> kafka.admin.ConfigCommand.main(rest);
            case "console" -> ConsoleConsumer.run(new ConsoleConsumerOptions(rest));
            case "verifiable" -> VerifiableConsumer.main(rest);
            case "perf" -> ConsumerPerformance.main(rest);
            case "join" -> {
                Member member = new Member(words);
                members.put(words.get(1), member);
                member.start();
            }
            case "leave" -> {
                Member member = members.remove(words.get(1));
                member.isOver.set(true);
                member.join();
            }
            case "await" -> await(words.get(1), Integer.parseInt(words.get(2)));
            default -> throw new IllegalArgumentException(words.get(0));
        }
    }

    public static void main(String[] addresses) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (message != null)
                System.out.println("! " + message);
            throw new Exited(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        System.setErr(System.out);
        String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        for (String one : addresses) {
            address = one;
            admin = Admin.create(Map.<String, Object>of("bootstrap.servers", address));
            for (String line : input.split("\n")) {
                System.out.println("> " + line);
                List<String> words = List.of(line.split(" "));
                String[] rest = ("--bootstrap-server " + address + line.substring(words.get(0).length())).split(" ");
                exitCode = null;
                try {
                    execute(words, rest);
                } catch (Exited exited) {
                    // The code is known.
                }
                System.out.println("\nexit " + (exitCode == null ? 0 : exitCode));
            }
            admin.close();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
