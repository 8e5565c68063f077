// A member of a group for `scripts/bench rebalance`, with Kafka's own client. group.py compiles and runs
// this; rebalance_member.py does the same with other clients and says what the lines mean.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

class RebalanceMember {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String STRATEGY = "partition.assignment.strategy";
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", RangeAssignor.class.getName(),
            "cooperative-sticky", CooperativeStickyAssignor.class.getName());

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final BlockingQueue<String> COMMANDS = new LinkedBlockingQueue<>();

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (int i = 1; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[0].equals(STRATEGY) ? ASSIGNORS.get(setting[1]) : setting[1]);
        }
        Thread reader = new Thread(RebalanceMember::readCommands);
        reader.setDaemon(true);
        reader.start();
        while (true) {
            String[] command = COMMANDS.take().split(" ");
            settings.put("group.id", command[1]);
            consume(arguments[0], settings);
        }
    }

    private static void consume(String topic, Properties settings) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            say("subscribing", List.of());
            consumer.subscribe(List.of(topic), new Listener());
            long closing = Long.MAX_VALUE;
            while (System.nanoTime() < closing) {
                long left = Math.max(0, Math.min(POLL.toNanos(), closing - System.nanoTime()));
                var records = consumer.poll(Duration.ofNanos(left));
                if (!records.isEmpty()) {
                    say("progress", records.partitions());
                }
                if (closing == Long.MAX_VALUE && !COMMANDS.isEmpty()) {
                    closing = Long.parseLong(COMMANDS.remove().split(" ")[1]);
                }
            }
            say("closing", List.of());
        }
        say("closed", List.of());
    }

    private static void say(String what, Collection<TopicPartition> partitions) {
        long now = System.nanoTime();
        OUT.println(what + " " + now + " "
                + partitions.stream().map(tp -> String.valueOf(tp.partition())).collect(Collectors.joining(",")));
    }

    private static void readCommands() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                COMMANDS.add(line);
            }
        } catch (java.io.IOException e) {
            // the end, like the other one
        }
        Runtime.getRuntime().halt(0);
    }

    private static class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say("revoked", partitions);
        }
    }
}
