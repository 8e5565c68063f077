import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;

/** Does with Kafka's own client what `prove.py` does with kwire, and prints its metrics: group, tags, name, value. */
public class MetricsReader {
    public static void main(String[] args) throws Exception {
        String topic = args[0];
        int left = Integer.parseInt(args[1]);
        Properties settings = new Properties();
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Set.of(topic));
            while (left > 0) {
                left -= consumer.poll(Duration.ofSeconds(10)).count();
            }
            for (int i = 0; i < 3; i++) {
                consumer.commitSync();
            }
            consumer.committed(Set.of(new TopicPartition(topic, 0)));
            for (int i = 0; i < 5; i++) {
                consumer.poll(Duration.ofMillis(200));
            }
            for (Map.Entry<MetricName, ? extends Metric> each : consumer.metrics().entrySet()) {
                MetricName name = each.getKey();
                TreeMap<String, String> tags = new TreeMap<>(name.tags());
                tags.remove("client-id");
                System.out.println(name.group() + "\t" + tags + "\t" + name.name() + "\t" + each.getValue().metricValue());
            }
        }
    }
}
