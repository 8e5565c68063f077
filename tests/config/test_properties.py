"""Files of the Java client: read as Java reads them, and used as they are."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

import kwire
from kwire import ConfigError, Consumer, ConsumerConfig
from kwire.deserializers import LongDeserializer

FILE = r"""
# a client of the shop's
! and another comment
bootstrap.servers = broker1:9092,\
                    broker2:9092
group.id: billing
client.id billing\ 1
auto.offset.reset=latest
auto.offset.reset=earliest
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
  username="alice" \
  password="p\u00e4ss=\u0077ord";
key.deserializer=org.apache.kafka.common.serialization.LongDeserializer
value.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer
client.dns.lookup=use_all_dns_ips
metric.reporters=
interceptor.classes=
acks=all
key.serializer=org.apache.kafka.common.serialization.LongSerializer
"""


def test_a_file_of_the_java_client_works_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text(FILE, encoding="ascii")
    settings = kwire.load_properties(path)
    assert settings["bootstrap.servers"] == "broker1:9092,broker2:9092"
    assert settings["client.id"] == "billing 1"
    assert 'password="päss=word";' in settings["sasl.jaas.config"]
    with caplog.at_level(logging.WARNING, "kwire.config"):
        config = ConsumerConfig.of(settings)
    (line,) = caplog.messages
    assert all(name in line for name in ("metric.reporters", "interceptor.classes", "acks", "key.serializer"))
    assert str(config.auto_offset_reset) == "earliest"
    assert isinstance(config.key_deserializer, LongDeserializer)
    assert config.value_deserializer is None


def test_it_makes_a_consumer() -> None:
    with Consumer(kwire.load_properties(io.StringIO("bootstrap.servers=b:1\ngroup.id=g\n"))) as consumer:
        assert consumer.config.group_id == "g"


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("x=\xe4".encode("iso-8859-1"), "ä"),
        ("x=ä".encode(), "ä"),
        (rb"x=\ud83d\ude00", "\U0001f600"),
        (rb"x=\t\q\\", "\tq\\"),
        (b"x = a b \r\n", "a b "),
        (b"x=1\nx=2", "2"),
        (b"x", ""),
        (b"x=a\\\n   b\\\n   c", "abc"),
    ],
)
def test_the_format_is_that_of_java(data: bytes, value: str) -> None:
    assert kwire.load_properties(io.BytesIO(data)) == {"x": value}


def test_a_bad_escape_is_named_by_its_line() -> None:
    with pytest.raises(ConfigError, match="line 2 has a bad escape"):
        kwire.load_properties(io.StringIO("a=1\nb=\\u12\n"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.properties: No such file"):
        kwire.load_properties(tmp_path / "none.properties")


def test_what_a_java_client_logs_as_its_defaults_is_accepted_but_for_its_stores() -> None:
    settings = kwire.load_properties(Path(__file__).parent / "foreign" / "java-4.3.1-defaults.properties")
    refused = {}
    for name, value in settings.items():
        try:
            ConsumerConfig.of({"bootstrap.servers": "b:1", "group.id": "g", name: value})
        except kwire.KafkaError as error:
            refused[name] = str(error)
    assert refused.keys() == {"ssl.keystore.type", "ssl.truststore.type"}
    assert all("PEM" in why for why in refused.values())


def test_a_deserializer_that_cannot_be_had_is_refused() -> None:
    given = {"bootstrap.servers": "b:1", "value.deserializer": "com.example.OrderDeserializer"}
    with pytest.raises(ConfigError, match="a class of Java's that kwire does not have; give a Python function"):
        ConsumerConfig.of(given)
