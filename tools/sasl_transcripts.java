// Lets Kafka's own SASL clients and servers talk to each other and writes down what they say, a JSON line for each
// talk. The tests replay them. Needs a JDK and Kafka's jars, which the tests get by themselves:
//
//     java -cp "$KWIRE_CACHE/kafka/4.4.0/libs/*" tools/sasl_transcripts.java > tests/protocol/golden/sasl.jsonl
//
// {"case": name, "mechanism": ..., "login": what the client logs in with, "client": [hex of each message],
//  "server": [hex of each answer], "complete": whether both are content, "refused": what the server threw, or null}

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SaslExtensions;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.authenticator.CredentialCache;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslClient;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredJws;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramExtensionsCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;
import org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;

class SaslTranscripts {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final byte[] NOTHING = new byte[0];
    private static final int MOST_TURNS = 5;

    public static void main(String[] arguments) throws Exception {
        plain("plain", "alice", "alice-secret", "alice-secret");
        plain("plain/unicode", "größe", "naïve päss ✓", "naïve päss ✓");
        plain("plain/signs", "a,b=c;d\"e", " leading, =2C trailing ", " leading, =2C trailing ");
        plain("plain/wrong", "alice", "guess", "alice-secret");
        for (ScramMechanism mechanism : ScramMechanism.values()) {
            String name = mechanism.mechanismName();
            scram(name, mechanism, "alice", "alice-secret", "alice-secret", 4096);
            scram(name + "/8192", mechanism, "alice", "alice-secret", "alice-secret", 8192);
            scram(name + "/16384", mechanism, "alice", "alice-secret", "alice-secret", 16384);
            scram(name + "/signs", mechanism, "a,b=c=2Cd =3D", "p,=", "p,=", 4096);
            scram(name + "/unicode", mechanism, "alice", "naïve päss ✓", "naïve päss ✓", 4096);
            // SASLprep would make these one password: Ⅸ is IX, ª is a, and the soft hyphen is nothing.
            scram(name + "/not prepared", mechanism, "alice", "Ⅸª\u00ad", "Ⅸª\u00ad", 4096);
            scram(name + "/decomposed", mechanism, "alice", "e\u0301", "e\u0301", 4096);
            scram(name + "/unicode user", mechanism, "größe", "secret", "secret", 4096);
            scram(name + "/wrong", mechanism, "alice", "guess", "alice-secret", 4096);
            scram(name + "/unknown user", mechanism, "alice", "alice-secret", null, 4096);
            delegationToken(name + "/delegation token", mechanism);
        }
        bearer("token", token("alice", 4_000_000_000L), Map.of());
        bearer("token/extensions", token("alice", 4_000_000_000L), extensions());
        bearer("token/expired", token("alice", 1_000_000_000L), Map.of());
        bearer("token/refused extension", token("alice", 4_000_000_000L), Map.of("pool", "closed"));
    }

    private static Map<String, String> extensions() {
        return Map.of("logicalCluster", "lkc-1", "pool", "a b,c=d\ttab");
    }

    private static void plain(String name, String user, String password, String known) throws Exception {
        SaslClient client = Sasl.createSaslClient(
            new String[] {"PLAIN"}, null, "kafka", "localhost", Map.of(), login(user, password, Map.of()));
        PlainServerCallbackHandler users = new PlainServerCallbackHandler();
        users.configure(Map.of(), "PLAIN", List.of(entry(Map.of("user_" + user, known))));
        talk(name, "PLAIN", client, new PlainSaslServer(users), credentials(user, password));
    }

    private static void scram(
        String name, ScramMechanism mechanism, String user, String password, String known, int iterations)
        throws Exception {
        CredentialCache.Cache<ScramCredential> stored =
            new CredentialCache().createCache(mechanism.mechanismName(), ScramCredential.class);
        if (known != null) {
            stored.put(user, new ScramFormatter(mechanism).generateCredential(known, iterations));
        }
        ScramServerCallbackHandler users =
            new ScramServerCallbackHandler(stored, new DelegationTokenCache(ScramMechanism.mechanismNames()));
        scramTalk(name, mechanism, users, user, password, Map.of());
    }

    private static void delegationToken(String name, ScramMechanism mechanism) throws Exception {
        String hmac = Base64.getEncoder().encodeToString("the token's hmac".getBytes(StandardCharsets.UTF_8));
        DelegationTokenCache tokens = new DelegationTokenCache(ScramMechanism.mechanismNames());
        KafkaPrincipal owner = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "alice");
        TokenInformation token =
            new TokenInformation("token-1", owner, owner, List.of(owner), 0, Long.MAX_VALUE, Long.MAX_VALUE);
        tokens.updateCache(
            new DelegationToken(token, hmac.getBytes(StandardCharsets.UTF_8)),
            Map.of(mechanism.mechanismName(), new ScramFormatter(mechanism).generateCredential(hmac, 4096)));
        ScramServerCallbackHandler users = new ScramServerCallbackHandler(
            new CredentialCache().createCache(mechanism.mechanismName(), ScramCredential.class), tokens);
        scramTalk(name, mechanism, users, "token-1", hmac, Map.of("tokenauth", "true"));
    }

    private static void scramTalk(
        String name, ScramMechanism mechanism, ScramServerCallbackHandler users, String user, String password,
        Map<String, String> extensions) throws Exception {
        users.configure(Map.of(), mechanism.mechanismName(), List.of());
        SaslClient client = new ScramSaslClient(mechanism, login(user, password, extensions));
        ObjectNode login = credentials(user, password);
        extensions.forEach(login.putObject("extensions")::put);
        talk(name, mechanism.mechanismName(), client, new ScramSaslServer(mechanism, Map.of(), users), login);
    }

    private static void bearer(String name, String token, Map<String, String> extensions) throws Exception {
        AuthenticateCallbackHandler tokens = new Handler(callback -> {
            if (callback instanceof OAuthBearerTokenCallback asked) {
                asked.token(new OAuthBearerUnsecuredJws(token, "sub", "scope"));
            } else if (callback instanceof SaslExtensionsCallback asked) {
                asked.extensions(new SaslExtensions(extensions));
            }
        });
        OAuthBearerUnsecuredValidatorCallbackHandler judge = new OAuthBearerUnsecuredValidatorCallbackHandler();
        judge.configure(Map.of(), "OAUTHBEARER", List.of(entry(Map.of())));
        AuthenticateCallbackHandler all = new Handler(callback -> {
            if (callback instanceof OAuthBearerExtensionsValidatorCallback asked) {
                asked.inputExtensions().map().forEach((key, value) -> {
                    if (value.equals("closed")) {
                        asked.error(key, "the pool is closed");
                    } else {
                        asked.valid(key);
                    }
                });
            } else {
                judge.handle(new Callback[] {callback});
            }
        });
        ObjectNode login = JSON.createObjectNode().put("token", token);
        new SaslExtensions(extensions).map().forEach(login.putObject("extensions")::put); // in the order they are sent in
        talk(name, "OAUTHBEARER", new OAuthBearerSaslClient(tokens), new OAuthBearerSaslServer(all), login);
    }

    private static String token(String subject, long expires) {
        return part("{\"alg\":\"none\"}") + "."
            + part("{\"sub\":\"" + subject + "\",\"iat\":900000000,\"exp\":" + expires + "}") + ".";
    }

    private static String part(String json) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(json.getBytes(StandardCharsets.UTF_8));
    }

    /** One after the other until the server is content or throws, as SaslClientAuthenticator does it. */
    private static void talk(String name, String mechanism, SaslClient client, SaslServer server, ObjectNode login)
        throws Exception {
        ObjectNode line = JSON.createObjectNode().put("case", name).put("mechanism", mechanism);
        line.set("login", login);
        ArrayNode said = line.putArray("client");
        ArrayNode answered = line.putArray("server");
        String refused = null;
        byte[] message = client.evaluateChallenge(NOTHING);
        for (int turn = 0; turn < MOST_TURNS && message != null; turn++) {
            said.add(HexFormat.of().formatHex(message));
            try {
                byte[] answer = server.evaluateResponse(message);
                answered.add(HexFormat.of().formatHex(answer == null ? NOTHING : answer));
                message = client.isComplete() ? null : client.evaluateChallenge(answer == null ? NOTHING : answer);
            } catch (Exception error) {
                refused = error.getClass().getSimpleName() + ": " + error.getMessage();
                message = null;
            }
        }
        line.put("complete", client.isComplete() && server.isComplete()).put("refused", refused);
        OUT.println(JSON.writeValueAsString(line));
    }

    private static ObjectNode credentials(String user, String password) {
        return JSON.createObjectNode().put("username", user).put("password", password);
    }

    private static AppConfigurationEntry entry(Map<String, ?> options) {
        return new AppConfigurationEntry(
            PlainLoginModule.class.getName(), AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
    }

    private static CallbackHandler login(String user, String password, Map<String, String> extensions) {
        return new Handler(callback -> {
            if (callback instanceof NameCallback asked) {
                asked.setName(user);
            } else if (callback instanceof PasswordCallback asked) {
                asked.setPassword(password.toCharArray());
            } else if (callback instanceof ScramExtensionsCallback asked) {
                asked.extensions(extensions);
            }
        });
    }

    private interface Answer {
        void to(Callback callback) throws Exception;
    }

    private record Handler(Answer answer) implements AuthenticateCallbackHandler {
        @Override
        public void handle(Callback[] callbacks) {
            for (Callback callback : callbacks) {
                try {
                    answer.to(callback);
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
        }

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

        @Override
        public void close() {}
    }
}
