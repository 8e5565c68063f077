"""Settings of a pipeline: what they mean, and what is said when they make no sense."""

from __future__ import annotations

import pytest

from kwire.errors import ConfigError
from kwire.spark.pipeline.plan import OnBad, Target, ValueFormat, plan_from

LEAST: dict[str, object] = {"topic": "orders", "bootstrap": "localhost:9092", "path": "/data/orders"}
TO_FUNCTION: dict[str, object] = {"topic": "orders", "bootstrap": "localhost:9092", "to": "function"}


def test_topic_brokers_and_a_folder_are_enough_for_a_table() -> None:
    plan = plan_from(LEAST)
    assert (plan.topics, plan.to, plan.path) == (("orders",), Target.PARQUET, "/data/orders")
    assert (plan.value_format, plan.on_bad, plan.from_) == (ValueFormat.BYTES, OnBad.FAIL, "earliest")
    assert (plan.master, plan.file_mib, plan.every_s) == ("local[*]", 128, None)


def test_how_far_it_is_stands_in_the_table_unless_said_otherwise() -> None:
    assert plan_from(LEAST).checkpoint == "/data/orders/_checkpoint"
    assert plan_from({**LEAST, "path": "s3a://lake/orders/"}).checkpoint == "s3a://lake/orders/_checkpoint"
    assert plan_from({**LEAST, "checkpoint": "/state"}).checkpoint == "/state"
    assert plan_from({"topic": "orders", "bootstrap": "b", "to": "console"}).checkpoint is None


@pytest.mark.parametrize("given", ["a,b", " a, b ,", ["a", "b"]])
def test_lists_may_be_written_with_commas(given: object) -> None:
    plan = plan_from({**LEAST, "topic": given, "partition_by": given})
    assert plan.topics == plan.partition_by == ("a", "b")


def test_options_of_kafka_and_of_the_source_become_options_of_the_source() -> None:
    tables = {
        "kafka": {"security": {"protocol": "PLAINTEXT"}, "fetch.min.bytes": 1},
        "source": {"failOnDataLoss": False},
        "spark": {"spark": {"executor.memory": "4g"}},
    }
    plan = plan_from({**LEAST, **tables})
    assert plan.source == {
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.fetch.min.bytes": "1",
        "failOnDataLoss": "false",
    }
    assert plan.spark == {"spark.executor.memory": "4g"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"topic": ""}, "say which topic to read"),
        ({"bootstrap": None}, "say where Kafka is"),
        ({"path": None}, "say where the table is to be"),
        ({"patition_by": "date"}, "patition_by is no setting of a pipeline; did you mean partition_by?"),
        ({"colour": "red"}, "colour is no setting of a pipeline; there are bootstrap, "),
        ({"to": "iceberg"}, "to is one of parquet, console, function, not 'iceberg'"),
        ({"to": "console"}, "path is for parquet"),
        ({"function": "a:b"}, "function is for --to function"),
        ({"value_format": "json"}, "json needs a value_schema"),
        ({"value_schema": "id INT"}, "bytes has no value_schema"),
        ({"file_mib": 0}, "file_mib is at least 1, not 0"),
        ({"file_mib": True}, "file_mib is a number, not True"),
        ({"every_s": -1}, "every_s is no negative number, such as -1"),
        ({"every_s": 5, "exit_at_end": True}, "exit_at_end and every_s"),
        ({"exit_at_end": "yes"}, "exit_at_end is true or false, not 'yes'"),
        ({"path": 5}, "path is text, not 5"),
        ({"topic": [5]}, "topic is a name, or a list of them"),
        ({"kafka": "x"}, "kafka is a table of names and values"),
        (
            {"source": {"subscribePattern": "x"}},
            "subscribePattern is not for source: a pipeline has topic and bootstrap",
        ),
        ({"kafka": {"bootstrap.servers": "x"}}, "kafka.bootstrap.servers is not for source"),
    ],
)
def test_what_makes_no_sense_is_said(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        plan_from({**LEAST, **settings})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "say what to call"),
        ({"function": "a:b"}, "say where to keep how far it is"),
        ({"function": "a:b", "checkpoint": "c", "partition_by": "date"}, "partition_by is for parquet"),
    ],
)
def test_a_function_needs_a_name_and_a_checkpoint(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan_from({**TO_FUNCTION, **settings})
