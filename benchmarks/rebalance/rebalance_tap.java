// Tells `scripts/bench rebalance` of each heartbeat and each commit the moment the broker takes it up: an authorizer,
// which the broker asks about every request, that allows everything. rebalance_tap.py compiles this, and reads
// its datagrams: nanoseconds (of the clock that all processes of a machine share), API key, group, client id.

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

public class RebalanceTap implements Authorizer {
    private static final Set<Short> TOLD =
            Set.of(ApiKeys.HEARTBEAT.id, ApiKeys.CONSUMER_GROUP_HEARTBEAT.id, ApiKeys.OFFSET_COMMIT.id);

    private final InetAddress home = InetAddress.getLoopbackAddress();
    private DatagramSocket socket;
    private int port;

    @Override
    public void configure(Map<String, ?> settings) {
        port = Integer.parseInt(String.valueOf(settings.get("bench.tap.port")));
        try {
            socket = new DatagramSocket(0, home);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext request, List<Action> actions) {
        if (TOLD.contains((short) request.requestType())) {
            long now = System.nanoTime();
            for (Action action : actions) {
                if (action.resourcePattern().resourceType() == ResourceType.GROUP) {
                    tell(now + " " + request.requestType() + " " + action.resourcePattern().name() + " "
                            + request.clientId());
                }
            }
        }
        return Collections.nCopies(actions.size(), AuthorizationResult.ALLOWED);
    }

    private void tell(String line) {
        byte[] bytes = line.getBytes(StandardCharsets.UTF_8);
        try {
            socket.send(new DatagramPacket(bytes, bytes.length, home, port));
        } catch (IOException e) {
            // nobody listens any more: the bench is over
        }
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo server) {
        return server.endpoints().stream()
                .collect(Collectors.toMap(endpoint -> endpoint, endpoint -> CompletableFuture.completedStage(null)));
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
            AuthorizableRequestContext request, List<AclBinding> bindings) {
        throw new SecurityDisabledException("this cluster has no rules");
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
            AuthorizableRequestContext request, List<AclBindingFilter> filters) {
        throw new SecurityDisabledException("this cluster has no rules");
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        return List.of();
    }

    @Override
    public void close() {
        if (socket != null) {
            socket.close();
        }
    }
}
