"""Values of each kind: what is taken, and what the error says of what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kwire.config import (
    SETTINGS,
    ConsumerConfig,
    Endpoint,
    EndpointIdentification,
    GroupProtocol,
    IsolationLevel,
    MetadataRecoveryStrategy,
    OffsetReset,
    ResetKind,
    SaslMechanism,
    Secret,
    SecurityProtocol,
    TlsVersion,
    parse_setting,
)
from kwire.config.offset_reset import parse_duration_ms
from kwire.config.parsers import BadValueError
from kwire.errors import ConfigError

SERVERS = "localhost:9092"


class Lower:
    """One that is called as a function."""

    def __call__(self, data: bytes) -> bytes:
        return data.lower()


class Lowest(Lower):
    """One that is derived from it."""


class Upper:
    """A deserializer object."""

    def deserialize(self, topic: str, headers: object, data: bytes | None) -> str:
        return f"{topic} {headers} {data!r}".upper()


upper = Upper()


class _Own:
    """An assignor of the user's own, as far as settings look."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<assignor {self.name}>"

    def assign(self) -> None:
        """Never called here."""


OWN = _Own("by-hand")
RANGE_TOO = _Own("range")
NAMELESS = _Own("")


def parse(name: str, value: object) -> object:
    return parse_setting(name, value)[1]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("check_crcs", "true", True),
        ("check_crcs", " FALSE ", False),
        ("check_crcs", False, False),
        ("max_poll_records", "5000", 5000),
        ("max_poll_records", " 7 ", 7),
        ("max_poll_records", 2**31 - 1, 2**31 - 1),
        ("max_poll_records", np.int64(12), 12),
        ("retry_backoff_ms", 2**63 - 1, 2**63 - 1),
        ("connections_max_idle_ms", "-1", -1),
        ("receive_buffer_bytes", -1, -1),
        ("client_id", "me", "me"),
        ("client_id", "", ""),
        ("group_id", None, None),
        ("group_instance_id", "i-1", "i-1"),
        ("isolation_level", "read_committed", IsolationLevel.READ_COMMITTED),
        ("metadata_recovery_strategy", "NONE", MetadataRecoveryStrategy.NONE),
        ("metadata_recovery_strategy", "rebootstrap", MetadataRecoveryStrategy.REBOOTSTRAP),
        ("metadata_recovery_rebootstrap_trigger_ms", "0", 0),
        ("isolation_level", IsolationLevel.READ_COMMITTED, IsolationLevel.READ_COMMITTED),
        ("group_protocol", "CLASSIC", GroupProtocol.CLASSIC),
        ("group_protocol", "Consumer", GroupProtocol.CONSUMER),
        ("security_protocol", "PLAINTEXT", SecurityProtocol.PLAINTEXT),
        ("security_protocol", "sasl_ssl", SecurityProtocol.SASL_SSL),
        ("sasl_mechanism", "SCRAM-SHA-512", SaslMechanism.SCRAM_SHA_512),
        ("sasl_mechanism", "scram_sha_256", SaslMechanism.SCRAM_SHA_256),
        ("ssl_endpoint_identification_algorithm", "", EndpointIdentification.NONE),
        ("ssl_endpoint_identification_algorithm", "HTTPS", EndpointIdentification.HTTPS),
        ("ssl_enabled_protocols", "TLSv1.3", (TlsVersion.TLS_1_3,)),
        ("ssl_truststore_location", "ca.pem", Path("ca.pem")),
        ("sasl_password", "hush", Secret("hush")),
        ("partition_assignment_strategy", "range", ("range",)),
        ("partition_assignment_strategy", ["org.apache.kafka.clients.consumer.RangeAssignor"], ("range",)),
        ("partition_assignment_strategy", "cooperative-sticky, sticky", ("cooperative-sticky", "sticky")),
        ("partition_assignment_strategy", OWN, (OWN,)),
        ("partition_assignment_strategy", ["range", OWN], ("range", OWN)),
        ("bootstrap_servers", "a:1", (Endpoint("a", 1),)),
        ("bootstrap_servers", " a:1 ,b_2.example:65535,", (Endpoint("a", 1), Endpoint("b_2.example", 65535))),
        ("bootstrap_servers", ["a:1", "b:2", "a:1"], (Endpoint("a", 1), Endpoint("b", 2))),
        ("bootstrap_servers", Endpoint("a", 1), (Endpoint("a", 1),)),
        ("bootstrap_servers", [Endpoint("a", 1), "b:2"], (Endpoint("a", 1), Endpoint("b", 2))),
        ("bootstrap_servers", "[::1]:9092", (Endpoint("::1", 9092),)),
        ("bootstrap_servers", "[fe80::1%eth0]:9092", (Endpoint("fe80::1%eth0", 9092),)),
        ("bootstrap_servers", "PLAINTEXT://a:1", (Endpoint("a", 1),)),
        ("auto_offset_reset", "earliest", OffsetReset(ResetKind.EARLIEST)),
        ("auto_offset_reset", " Latest ", OffsetReset(ResetKind.LATEST)),
        ("auto_offset_reset", "none", OffsetReset(ResetKind.NONE)),
        ("auto_offset_reset", "by_duration:PT5S", OffsetReset(ResetKind.BY_DURATION, 5000)),
        ("key_deserializer", None, None),
        ("key_deserializer", bytes.decode, bytes.decode),
        ("key_deserializer", int, int),
        ("key_deserializer", str, str),
        ("value_deserializer", upper, upper),
        ("value_deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer", None),
    ],
)
def test_good_values(name: str, value: object, expected: object) -> None:
    assert parse(name, value) == expected


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("check_crcs", "yes", "neither true nor false; valid: true or false"),
        ("check_crcs", 1, "neither true nor false; valid: true or false"),
        ("max_poll_records", "many", "not a whole number; valid: 1 to 2147483647"),
        ("max_poll_records", "5.0", "not a whole number; valid: 1 to 2147483647"),
        ("max_poll_records", 5.0, "not a whole number; valid: 1 to 2147483647"),
        ("max_poll_records", True, "not a whole number; valid: 1 to 2147483647"),
        ("max_poll_records", "\u0665", "not a whole number; valid: 1 to 2147483647"),
        ("max_poll_records", None, "not a whole number; valid: 1 to 2147483647"),
        ("max_poll_records", 0, "out of range; valid: 1 to 2147483647"),
        ("max_poll_records", "2147483648", "out of range; valid: 1 to 2147483647"),
        ("fetch_min_bytes", -1, "out of range; valid: 0 to 2147483647"),
        ("send_buffer_bytes", -2, "out of range; valid: -1 to 2147483647"),
        ("client_id", 5, "not text; valid: text"),
        ("client_id", b"me", "not text; valid: text"),
        ("client_id", "\ud800", "not valid Unicode; valid: text"),
        ("group_id", 5, "not text; valid: text that is not blank, or None to read without a group"),
        ("group_instance_id", " ", "blank; valid: text that is not blank, or None for a dynamic member"),
        ("metadata_recovery_strategy", "always", "no such choice; valid: none, rebootstrap"),
        ("isolation_level", "serializable", "no such choice; valid: read_uncommitted, read_committed"),
        ("group_protocol", "share", "no such choice; valid: classic, consumer"),
        ("security_protocol", "TLS", "no such choice; valid: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("sasl_mechanism", "SCRAM", "no such choice; valid: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI"),
        ("ssl_truststore_type", "JKS", "kwire reads PEM files; convert the JKS store with: keytool -importkeystore"),
        (
            "ssl_keystore_type",
            "pkcs12",
            "kwire reads PEM files; convert the PKCS12 store with: openssl pkcs12 -in STORE.p12",
        ),
        ("ssl_truststore_certificates", "/etc/ca.pem", "no PEM text; it has no line -----BEGIN CERTIFICATE-----"),
        ("ssl_enabled_protocols", "TLSv1.1", "no such choice; valid: some of TLSv1.2, TLSv1.3"),
        ("ssl_context", "context", "not an ssl.SSLContext"),
        ("sasl_login_refresh_window_factor", 0.4, "out of range; valid: a number, 0.5 to 1.0"),
        ("partition_assignment_strategy", "", "no assignor; valid: range, "),
        ("partition_assignment_strategy", "range,range", "an assignor is listed twice; valid: range, "),
        ("partition_assignment_strategy", "rang", "no assignor 'rang'; valid: range, "),
        (
            "partition_assignment_strategy",
            [len],
            f"{len!r} is neither the name of an assignor nor one itself; valid: range",
        ),
        (
            "partition_assignment_strategy",
            RANGE_TOO,
            f"{RANGE_TOO!r} calls itself 'range', which is one of Kafka's; valid",
        ),
        (
            "partition_assignment_strategy",
            NAMELESS,
            f"{NAMELESS!r} has no name that a group's members could agree on; v",
        ),
        ("partition_assignment_strategy", _Own, f"{_Own!r} cannot be made without arguments ("),
        ("partition_assignment_strategy", [OWN, "range", OWN], "an assignor is listed twice; valid: range, "),
        ("bootstrap_servers", "", "no server; valid: host:port"),
        ("bootstrap_servers", [], "no server; valid: host:port"),
        ("bootstrap_servers", 9092, "not a list, nor text with commas; valid: host:port"),
        ("bootstrap_servers", [9092], "9092 is not text; valid: host:port"),
        ("bootstrap_servers", "a", "'a' has no port; Kafka's usual one is 9092; valid: host:port"),
        ("bootstrap_servers", "a:1,b", "'b' has no port; Kafka's usual one is 9092; valid: host:port"),
        ("bootstrap_servers", "[::1]", "'[::1]' has no port; Kafka's usual one is 9092; valid: host:port"),
        ("bootstrap_servers", "a:0", "'a:0': a port is 1 to 65535; valid: host:port"),
        ("bootstrap_servers", "a:65536", "'a:65536': a port is 1 to 65535; valid: host:port"),
        ("bootstrap_servers", "a:http", "'a:http': the port 'http' is not a number; valid: host:port"),
        ("bootstrap_servers", "a:-1", "'a:-1': the port '-1' is not a number; valid: host:port"),
        ("bootstrap_servers", ":9092", "':9092' is not host:port; valid: host:port"),
        ("bootstrap_servers", "a b:9092", "'a b:9092': write commas between servers; valid: host:port"),
        ("bootstrap_servers", "a:1;b:2", "'a:1;b:2': write commas between servers; valid: host:port"),
        ("bootstrap_servers", "a:1 b:2", "'a:1 b:2': write commas between servers; valid: host:port"),
        (
            "bootstrap_servers",
            "::1:9092",
            "'::1:9092' looks like an IPv6 address; put it in brackets; valid: host:port",
        ),
        ("bootstrap_servers", "[::z]:9092", "[::z] is no IPv6 address: "),
        ("auto_offset_reset", "first", "no such policy; valid: earliest, latest, none, by_duration:PnDTnHnMn.nS"),
        ("auto_offset_reset", "by_duration", "no such policy; valid: earliest"),
        ("auto_offset_reset", "by_duration:", "not an ISO 8601 duration; valid: earliest"),
        ("auto_offset_reset", "by_duration:-PT1S", "a negative duration; valid: earliest"),
        ("auto_offset_reset", 5, "not text; valid: earliest"),
        (
            "key_deserializer",
            "com.example.MyDeserializer",
            "a class of Java's that kwire does not have; give a Python function",
        ),
        ("key_deserializer", Lower, "a class; give an object of it; valid: a callable"),
        ("value_deserializer", Lowest, "a class; give an object of it; valid: a callable"),
        ("key_deserializer", Upper, "a class; give an object of it; valid: a callable"),
        ("key_deserializer", 5, "cannot deserialize; valid: a callable"),
    ],
)
def test_bad_values_are_named_with_the_reason_and_what_is_valid(name: str, value: object, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConsumerConfig.of({"bootstrap_servers": SERVERS} | {name: value})
    shown, _, said = str(caught.value).partition(": ")
    assert shown == f"{name}={value!r}"
    assert said.startswith(why)


def test_the_value_of_an_error_is_cut_short() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("max_poll_records", "9" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT0S", 0),
        ("PT0.001S", 1),
        ("PT0.0019S", 1),
        ("PT1,5S", 1_500),
        ("PT15M", 900_000),
        ("PT10H", 36_000_000),
        ("P2D", 172_800_000),
        ("P2DT3H4M", 183_840_000),
        ("pt1h30m", 5_400_000),
        ("P-1DT25H", 3_600_000),
        ("-PT-6H", 21_600_000),
        ("PT1M-0.5S", 59_500),
    ],
)
def test_durations_are_read_as_java_does(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1", "1D", "P1H", "PT1D", "P1DT", "PT1.S5", "PT 1S", "P1Y", "P1W", "PT.5S", "PT6H7H"]
)
def test_what_java_does_not_take_for_a_duration_is_refused(text: str) -> None:
    with pytest.raises(BadValueError, match="not an ISO 8601 duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["-PT1S", "PT-1S", "PT-0.5S", "P1DT-25H"])
def test_a_negative_duration_is_refused(text: str) -> None:
    with pytest.raises(BadValueError, match="a negative duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    "reset",
    [OffsetReset(ResetKind.EARLIEST), OffsetReset(ResetKind.NONE), OffsetReset(ResetKind.BY_DURATION, 90_061_001)],
)
def test_a_reset_policy_reads_back_what_it_prints(reset: OffsetReset) -> None:
    assert parse("auto_offset_reset", str(reset)) == reset


def test_a_duration_is_printed_as_it_was_written() -> None:
    """A line of the log said by_duration:PT3600S, which nobody had written anywhere."""
    hour = parse("auto_offset_reset", " by_duration:PT1H ")
    assert str(hour) == "by_duration:PT1H"
    assert hour == OffsetReset(ResetKind.BY_DURATION, 3_600_000)


@pytest.mark.parametrize("endpoint", [Endpoint("a.example", 1), Endpoint("::1", 9092)])
def test_an_endpoint_reads_back_what_it_prints(endpoint: Endpoint) -> None:
    assert parse("bootstrap_servers", str(endpoint)) == (endpoint,)


def test_javas_string_deserializer_is_utf8() -> None:
    decode = parse("value_deserializer", "org.apache.kafka.common.serialization.StringDeserializer")
    assert callable(decode)
    assert decode("ä".encode()) == "ä"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_parsed_value_may_be_given_again(name: str) -> None:
    value = parse(name, SERVERS) if name == "bootstrap_servers" else SETTINGS[name].default
    assert parse(name, value) == value


def test_a_setting_is_parsed_under_either_name() -> None:
    assert parse_setting("max.poll.records", "5") == parse_setting("max_poll_records", 5) == ("max_poll_records", 5)
