// A broker's plug-in that takes clients' metrics (KIP-714), and has the broker want them. Used by
// test_metrics_push_real.py, which compiles it against Kafka's jars.

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

public class MetricsSink implements MetricsReporter, ClientTelemetry {
    private static final AtomicInteger COUNT = new AtomicInteger();
    private File directory;

    @Override
    public void configure(Map<String, ?> configs) {
        directory = new File(configs.get("metrics.sink.directory").toString());
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {
            ByteBuffer data = payload.data();  // the broker has inflated it
            byte[] bytes = new byte[data.remaining()];
            data.get(bytes);
            String kind = payload.isTerminating() ? "last" : "push";
            String name = String.format("%05d-%s", COUNT.incrementAndGet(), kind);
            try {
                File part = new File(directory, "." + name);
                Files.write(part.toPath(), bytes);
                part.renameTo(new File(directory, name));
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        };
    }

    @Override
    public void init(List<KafkaMetric> metrics) { }

    @Override
    public void metricChange(KafkaMetric metric) { }

    @Override
    public void metricRemoval(KafkaMetric metric) { }

    @Override
    public void close() { }

    // MetricsSink HOST:PORT PREFIXES INTERVAL_MS
    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            ConfigResource all = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "all");
            Collection<AlterConfigOp> wanted = List.of(
                new AlterConfigOp(new ConfigEntry("metrics", args[1]), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("interval.ms", args[2]), AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(all, wanted)).all().get();
        }
    }
}
