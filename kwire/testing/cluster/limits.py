"""Differences of the cluster from Kafka 4.4.0, and their reasons. Everything else is meant to be the same.

For readers who wonder whether a difference is a bug. `kwire conformance` and tests with real clients check the rest.
The code does not use this list.
"""

from __future__ import annotations

from typing import NamedTuple


class Limit(NamedTuple):
    """One difference."""

    area: str
    difference: str
    reason: str


LIMITS: tuple[Limit, ...] = (
    # --- what is not offered ---
    Limit("share groups", "not offered (KIP-932)", "kwire has no share consumer yet"),
    Limit("streams groups", "not offered (KIP-1071)", "kwire is no Kafka Streams"),
    Limit("telemetry", "offered once want_metrics() was called; the same is wanted of all", "there is no plug-in"),
    Limit("admin", "no AlterConfigs, ACLs, quotas, reassignments or elections over the wire", "operations do it"),
    Limit("inter-broker", "no replication, controller or log-dir APIs", "brokers share one process"),
    Limit("Produce", "v0 to v2 are refused", "so does Kafka 4; v0 is only listed, for librdkafka (KAFKA-18659)"),
    # --- the cluster ---
    Limit("replication", "followers have each record at once; the high watermark is the end of the log", "simplicity"),
    Limit(
        "replication",
        "records written with acks=1 are read though fewer than min.insync.replicas are in sync",
        "the high watermark is the end of the log",
    ),
    Limit(
        "replication", "no eligible leader replicas (KIP-966): the last replica in sync stays so when it dies", "scope"
    ),
    Limit("replication", "a broker that returns is in sync at once", "what it missed is in the shared log"),
    Limit("metadata", "all brokers know changes at once, topics have leaders at once", "tests need not wait"),
    Limit("auto-creation", "CreateTopics and Metadata create at once, not a moment later", "tests need not wait"),
    Limit("internal topics", "__consumer_offsets and __transaction_state do not exist", "state is held as objects"),
    Limit(
        "coordinators",
        "chosen by a hash over brokers; when that one is down, the next takes over for good",
        "no offsets topic",
    ),
    Limit("coordinators", "loading takes load_ms, 0 by default", "there is no log to load"),
    Limit(
        "initial rebalance", "group.initial.rebalance.delay.ms is 0 by default, Kafka's is 3 s", "tests need not wait"
    ),
    Limit(
        "older releases",
        "emulated are their API versions and features, not what they did otherwise",
        "clients see these",
    ),
    Limit("connections", "connections.max.idle.ms is not enforced", "tests are short"),
    Limit("quotas", "no quotas; throttle() throttles by API", "what counts is how clients take it"),
    Limit("racks", "replicas are placed in a ring, racks are not looked at", "assignments can be given"),
    # --- security ---
    Limit(
        "authorization",
        "the newest of the rules that are about something decides; in Kafka a denial always does",
        "tests give back what they took",
    ),
    Limit("authorization", "no ACLs over the wire; rules come from allow() and deny()", "scope"),
    Limit(
        "authorization",
        "no permission is asked for to make, grow, delete or configure topics, nor by AddPartitionsToTxn",
        "clients read and write",
    ),
    Limit("SASL", "no GSSAPI, no delegation tokens (KIP-48)", "scope"),
    Limit("SCRAM", "channel binding data have to be those of the first message", "RFC 5802; Kafka does not look"),
    Limit("OAUTHBEARER", "another scheme than Bearer is answered; Kafka 4.4 closes the connection", "a bug of Kafka"),
    Limit("OAUTHBEARER", "tokens are unsecured, or for validate_token to check; no scopes, no extensions", "scope"),
    Limit("TLS", "principals of certificates are the subject; no ssl.principal.mapping.rules", "scope"),
    Limit("listeners", "one for each broker, with one security protocol", "clients have one"),
    Limit("connections", "none is closed for being idle (connections.max.idle.ms)", "tests are short"),
    # --- settings ---
    Limit("DescribeConfigs", "of a broker only what changes something here; no documentation texts", "size"),
    Limit(
        "settings of groups",
        "times are not held against group.consumer.min.session.timeout.ms and its like",
        "tests need not wait",
    ),
    Limit("DescribeConfigs", "of a group only settings of the consumer protocol", "no share or streams groups"),
    Limit("topic settings", "retention happens when a test says so, by batches: there are no segments", "determinism"),
    # --- logs and transactions ---
    Limit(
        "segments",
        "a fetch does not end with a segment, compaction takes all up to the last stable offset",
        "there are none",
    ),
    Limit("Fetch", "followers' requests are answered as consumers' are", "no replication"),
    Limit("Produce", "records not numbered 0, 1, 2... are refused, Kafka numbers them anew", "no client sends them"),
    Limit("Produce", "null instead of records is INVALID_RECORD; Kafka does not answer", "tests need not wait"),
    Limit("producer ids", "a partition forgets no producer (producer.id.expiration.ms)", "tests are short"),
    Limit("transactional ids", "forgotten when next asked for, not by an hourly look", "determinism"),
    Limit("markers", "written with EndTxn, or transaction_marker_delay_ms later", "tests need not wait"),
    Limit("two-phase commit", "InitProducerId v6 is not offered (KIP-939)", "unstable in Kafka 4.3"),
    # --- groups ---
    Limit("offsets", "never expire, nor do groups without offsets (offsets.retention.minutes)", "tests are short"),
    Limit("classic groups", "members and votes count in the order of joining, in Kafka in a hash map's", "determinism"),
    Limit("classic groups", "answers about several groups come in the order of the question", "Kafka's is arbitrary"),
    Limit("static members", "one that comes back before it synced does not cause a rebalance later", "a bug of Kafka"),
    # --- consumer groups (KIP-848) ---
    Limit("assignors", "uniform and range; classes of one's own cannot be loaded", "there is no JVM"),
    Limit(
        "regular expressions",
        "matched within the heartbeat that brings them, Kafka does it a moment later",
        "determinism",
    ),
    Limit(
        "regular expressions", "classes such as \\pL know ASCII only; permissions filter nothing", "Python's re; scope"
    ),
    Limit(
        "KIP-848 joins",
        "a member that joins without topics gets nothing",
        "Kafka 4.3.1 may give it a share nobody reads",
    ),
    Limit("metadata hash", "racks of replicas do not count", "assignors here do not use them"),
)
