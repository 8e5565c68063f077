// Asks Kafka's own assignors, for the tests: a JSON line in, a JSON line out. assignor_oracle.py compiles and runs this.
//
// In:  {"assignor": "range", "racks": {topic: [[rack of a replica, ...] of each partition, ...]},
//       "members": {id: {"instance": id or null, "subscription": bytes in base64}}}
// Out: {"plan": {id: [[topic, partition], ...]}, "userData": {id: what the member would add to its next subscription}}
//      {"error": what the assignor threw}
//
// The subscription is what the member sends in JoinGroup: Java reads it with its own ConsumerProtocol.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int GENERATION = 7;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (RuntimeException error) {
                answer = JSON.createObjectNode().put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static ObjectNode answer(JsonNode question) {
        String name = question.get("assignor").asText();
        GroupSubscription group = new GroupSubscription(subscriptions(question.get("members")));
        // A new one each time: they carry the newest generation that they have seen over to the next group.
        Map<String, Assignment> assignments = make(name).assign(cluster(question.get("racks")), group).groupAssignment();
        ObjectNode answer = JSON.createObjectNode();
        ObjectNode plan = answer.putObject("plan");
        ObjectNode userData = answer.putObject("userData");
        assignments.forEach((member, assignment) -> {
            ArrayNode partitions = plan.putArray(member);
            for (TopicPartition tp : assignment.partitions()) {
                partitions.addArray().add(tp.topic()).add(tp.partition());
            }
            ConsumerPartitionAssignor assignor = make(name);
            assignor.onAssignment(assignment, new ConsumerGroupMetadata("group", GENERATION, member, Optional.empty()));
            ByteBuffer added = assignor.subscriptionUserData(Set.of());
            userData.put(member, added == null ? null : Base64.getEncoder().encodeToString(bytes(added)));
        });
        return answer;
    }

    private static ConsumerPartitionAssignor make(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("no assignor " + name);
        };
    }

    private static Map<String, Subscription> subscriptions(JsonNode members) {
        Map<String, Subscription> found = new HashMap<>();
        members.fields().forEachRemaining(entry -> {
            byte[] data = Base64.getDecoder().decode(entry.getValue().get("subscription").asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(data));
            subscription.setGroupInstanceId(Optional.ofNullable(entry.getValue().get("instance").textValue()));
            found.put(entry.getKey(), subscription);
        });
        return found;
    }

    private static Cluster cluster(JsonNode racksByTopic) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        racksByTopic.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(rack.asText(), r -> new Node(nodes.size(), "localhost", 9092, r)));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, null, all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] found = new byte[buffer.remaining()];
        buffer.get(found);
        return found;
    }
}
