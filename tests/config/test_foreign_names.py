"""Each setting of Java, librdkafka, kafka-python and aiokafka is answered: taken, left out, or refused with a way."""

from __future__ import annotations

import ctypes
import logging
import re
import sysconfig
import warnings
from pathlib import Path

import pytest

from kwire import Consumer
from kwire.config import SETTINGS, ConsumerConfig, OffsetReset, ResetKind
from kwire.config.names import FOREIGN, is_left_out
from kwire.errors import ConfigError
from tools.settings_docs import PAGE, page

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor

LISTS = Path(__file__).parent / "foreign"
REFUSED = [name for name, entry in FOREIGN.items() if entry.idle_at is not None and not entry.take]
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


def lines(file: str) -> list[str]:
    return (LISTS / file).read_text(encoding="utf-8").split()


def librdkafka_names(folder: Path) -> list[str]:
    """Asked of the library that confluent-kafka brings."""
    (library,) = Path(sysconfig.get_path("purelib"), "confluent_kafka.libs").glob("librdkafka*")
    librdkafka, libc = ctypes.CDLL(str(library)), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(folder / "settings").encode(), b"w"))
    librdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    rows = [line.partition("|")[0].strip() for line in (folder / "settings").read_text(encoding="utf-8").splitlines()]
    return [name for name in rows if re.fullmatch(r"[a-z_.]+", name)]


def of(config: dict[str, object]) -> ConsumerConfig:
    return ConsumerConfig.of({"bootstrap.servers": "b:1", **config})


def unanswered(names: list[str]) -> list[str]:
    return [name for name in names if name.replace(".", "_") not in {*SETTINGS, *FOREIGN}]


def test_all_of_java_is_answered() -> None:
    consumers, producers = lines("java-4.3.1.txt"), lines("java-4.3.1-producer.txt")
    assert len(consumers) == 116
    assert unanswered([*consumers, *producers]) == []


def test_all_of_librdkafka_is_answered(tmp_path: Path) -> None:
    names = librdkafka_names(tmp_path)
    assert len(names) > 150
    assert unanswered(names) == []


def test_all_of_kafka_python_is_answered() -> None:
    assert unanswered(list(kafka.KafkaConsumer.DEFAULT_CONFIG)) == []


def test_all_of_aiokafka_is_answered() -> None:
    assert unanswered(lines("aiokafka-0.14.0.txt")) == []


def test_what_kwire_has_under_its_own_name_is_in_no_table() -> None:
    assert FOREIGN.keys().isdisjoint(SETTINGS)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_the_way_to_go(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of({FOREIGN[name].name: "something else"})
    said = str(caught.value)
    assert said.startswith(f"kwire has no setting {FOREIGN[name].name!r}: ")
    assert len(said.partition(": ")[2]) > 10
    assert "leave it out" not in said


@pytest.mark.parametrize("name", [name for name, entry in FOREIGN.items() if entry.instead])
def test_what_a_way_names_is_there(name: str) -> None:
    instead = FOREIGN[name].instead
    for setting in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", instead):
        exists = setting in SETTINGS or hasattr(Consumer, setting)
        assert exists or setting in ("on_assigned", "on_revoked", "on_lost", "verify_mode", "extension_NAME"), setting


@pytest.mark.parametrize(
    ("name", "value", "setting", "expected"),
    [
        ("fetch.wait.max.ms", "7", "fetch_max_wait_ms", 7),
        ("fetch.message.max.bytes", 8, "max_partition_fetch_bytes", 8),
        ("queued.max.messages.kbytes", "64", "fetch_buffer_bytes", 65536),
        ("topic.metadata.refresh.interval.ms", -1, "metadata_max_age_ms", 2**63 - 1),
        ("topic.metadata.refresh.interval.ms", "5000", "metadata_max_age_ms", 5000),
        ("socket.receive.buffer.bytes", 0, "receive_buffer_bytes", -1),
        ("auto.commit.enable", "false", "enable_auto_commit", False),
        ("auto.offset.reset", "smallest", "auto_offset_reset", OffsetReset(ResetKind.EARLIEST)),
        ("auto.offset.reset", "error", "auto_offset_reset", OffsetReset(ResetKind.NONE)),
        ("sasl_plain_username", "alice", "sasl_username", "alice"),
        ("partition_assignment_strategy", [RangePartitionAssignor], "partition_assignment_strategy", ("range",)),
    ],
)
def test_what_is_the_same_is_taken(name: str, value: object, setting: str, expected: object) -> None:
    assert getattr(of({name: value}), setting) == expected


@pytest.mark.parametrize(
    ("name", "given", "answer"),
    [
        ("topics", ["orders"], "topics come first, without a name"),
        ("topic", "orders", "topics come first, without a name"),
        ("topics", [], "topics come first, without a name"),
        ("brokers", "b:1", "bootstrap_servers"),
        ("servers", "b:1", "bootstrap_servers"),
        ("from_beginning", True, 'auto_offset_reset="earliest"'),
        ("timeout", 1.0, r"poll\(timeout\) takes it, in seconds"),
        ("poll_timeout", 1.0, r"poll\(timeout\) takes it, in seconds"),
        ("on_assigned", print, r"subscribe\(\)"),
        ("last", 5, "start=-5"),
    ],
)
def test_what_people_try_first_is_answered_too(name: str, given: object, answer: str) -> None:
    """`timeout` was taken for a misspelt close_timeout_ms."""
    with pytest.raises(ConfigError, match=f"^kwire has no setting '{name}': .*{answer}"):
        of({name: given})


def test_a_dictionary_of_confluent_kafka_works_as_it_is() -> None:
    config = ConsumerConfig.of(
        {
            "metadata.broker.list": "b:1",
            "group.id": "g",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "ssl.ca.location": "/etc/ca.pem",
            "enable.partition.eof": False,
            "session.timeout.ms": 6000,
        }
    )
    assert (config.sasl_username, config.ssl_truststore_location) == ("alice", Path("/etc/ca.pem"))


def test_keywords_of_kafka_python_are_taken_too() -> None:
    keywords: dict[str, object] = {"ssl_cafile": "ca.pem", "ssl_check_hostname": False, "security_protocol": "SSL"}
    config = ConsumerConfig.of({}, bootstrap_servers="b:1", **keywords)  # type: ignore[arg-type]  # names of others
    assert config.ssl_truststore_location == Path("ca.pem")
    assert config.ssl_endpoint_identification_algorithm.value != "https"


def test_certificate_and_key_may_be_two_files(tmp_path: Path) -> None:
    certificate, key, both = (tmp_path / name for name in ("cert.pem", "key.pem", "both.pem"))
    certificate.write_text(CERTIFICATE, encoding="ascii")
    key.write_text(KEY, encoding="ascii")
    both.write_text(CERTIFICATE + KEY, encoding="ascii")
    two = of({"security.protocol": "SSL", "ssl.certificate.location": str(certificate), "ssl.key.location": str(key)})
    assert two.ssl_keystore_certificate_chain == CERTIFICATE
    assert two.ssl_keystore_key is not None
    assert two.ssl_keystore_key.reveal() == KEY
    assert of({"security.protocol": "SSL", "ssl_certfile": str(both)}).ssl_keystore_location == both
    with pytest.raises(ConfigError, match=r"ssl_certfile: cannot read .*none\.pem: No such file"):
        of({"ssl_certfile": str(tmp_path / "none.pem")})


@pytest.mark.parametrize(
    ("certificates", "keys"),
    [("ssl_certfile", "ssl_keyfile"), ("ssl.certificate.location", "ssl.key.location")],
)
def test_certificate_and_key_may_come_in_one_file_that_is_named_twice(
    tmp_path: Path, certificates: str, keys: str
) -> None:
    both = tmp_path / "both.pem"
    both.write_text(CERTIFICATE + KEY, encoding="ascii")
    found = of({"security.protocol": "SSL", certificates: str(both), keys: str(both)})
    assert (found.ssl_keystore_location, found.ssl_keystore_key) == (both, None)


def test_the_key_of_its_own_file_counts_beside_a_file_of_certificate_and_key(tmp_path: Path) -> None:
    both, other = tmp_path / "both.pem", tmp_path / "other.pem"
    both.write_text(KEY + CERTIFICATE, encoding="ascii")
    other.write_text(KEY.replace("AAAA", "BBBB"), encoding="ascii")
    found = of({"security.protocol": "SSL", "ssl_certfile": str(both), "ssl_keyfile": str(other)})
    assert found.ssl_keystore_location is None
    assert found.ssl_keystore_certificate_chain == CERTIFICATE.strip()
    assert found.ssl_keystore_key is not None
    assert "BBBB" in found.ssl_keystore_key.reveal()


def test_files_of_certificate_and_key_may_have_names_of_any_alphabet_beside_the_blocks(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text("friendlyName: Müller\n" + CERTIFICATE, encoding="utf-8")
    key.write_text("friendlyName: Müller\n" + KEY, encoding="latin-1")
    two = of({"security.protocol": "SSL", "ssl.certificate.location": str(certificate), "ssl.key.location": str(key)})
    assert two.ssl_keystore_certificate_chain is not None
    assert two.ssl_keystore_certificate_chain.endswith(CERTIFICATE)
    assert two.ssl_keystore_key is not None
    assert two.ssl_keystore_key.reveal().endswith(KEY)


def test_two_names_of_one_setting_are_given_twice() -> None:
    with pytest.raises(ConfigError, match=r"given twice, as 'bootstrap\.servers' and as 'metadata\.broker\.list'"):
        of({"metadata.broker.list": "c:1"})


def test_what_has_no_effect_is_told_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kwire.config"):
        of({"debug": "cgrp", "api_version": (2, 5), "acks": "all", "statistics.interval.ms": 1000})
    (line,) = caplog.messages
    assert all(name in line for name in ("debug", "api_version", "acks", "statistics.interval.ms"))
    assert 'logging.getLogger("kwire")' in line


@pytest.mark.parametrize(
    ("name", "value", "left_out"),
    [
        ("enable.partition.eof", True, False),
        ("enable.partition.eof", "false", True),
        ("consumer_timeout_ms", float("inf"), True),
        ("consumer_timeout_ms", 1000, False),
        ("metric_reporters", [], True),
    ],
)
def test_the_value_says_whether_it_may_be_left_out(name: str, value: object, left_out: bool) -> None:
    assert is_left_out(name, value) is left_out


def test_defaults_of_kafka_python_are_accepted_as_they_are() -> None:
    defaults = dict(kafka.KafkaConsumer.DEFAULT_CONFIG)
    for internal in ("default_offset_commit_callback", "kafka_client", "socket_options"):
        defaults.pop(internal)
    refused = {name: value for name, value in defaults.items() if name in REFUSED and not is_left_out(name, value)}
    assert refused == {}


def test_the_page_has_the_tables_as_they_are() -> None:
    """`python -m tools.settings_docs` writes them."""
    assert PAGE.read_text(encoding="utf-8") == page()
