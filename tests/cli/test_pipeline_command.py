"""`kwire pipeline`: flags and files, exit codes, and what it says of its progress. Spark is not started here."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from kwire.cli.commands import app
from kwire.cli.pipeline_output import Bars, BatchLines, described, left, watcher
from kwire.errors import ConfigError
from kwire.spark.pipeline import run as running
from kwire.spark.pipeline.plan import PipelinePlan, Target, ValueFormat
from kwire.spark.pipeline.progress import Figures
from kwire.spark.pipeline.run import PipelineError, Watch, said_by

HALFWAY = Figures(batch=3, rows=1_200_000, rate=350_000.0, lag=3_800_000, backfill=3_700_000, left_s=11.0)
AT_END = Figures(batch=9, rows=5_000_000, rate=400_000.0, lag=0, backfill=0, left_s=0.0)
FLAGS = ["pipeline", "orders", "-b", "localhost:9092", "--path", "/data/orders"]


class FakeRun:
    """Takes the place of Spark: notes plans, tells of two batches, and fails if it is to."""

    def __init__(self) -> None:
        self.plans: list[PipelinePlan] = []
        self.failure: Exception | None = None

    def __call__(self, plan: PipelinePlan, watch: Watch, _is_stopped: Callable[[], bool]) -> Figures:
        self.plans.append(plan)
        watch(HALFWAY)
        if self.failure is not None:
            raise self.failure
        watch(AT_END)
        return AT_END


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    run = FakeRun()
    monkeypatch.setattr(running, "run", run)
    return run


def test_flags_say_what_to_do(fake: FakeRun) -> None:
    more = ["--partition-by", "date,hour", "--file-mib", "64", "--every", "30", "--fresh-first"]
    more += ["--kafka", "client.id=me", "-X", "maxOffsetsPerTrigger=5", "--conf", "spark.executor.memory=4g"]
    done = CliRunner().invoke(app, [*FLAGS, *more])
    assert done.exit_code == 0, done.stderr
    (plan,) = fake.plans
    assert (plan.topics, plan.path, plan.partition_by) == (("orders",), "/data/orders", ("date", "hour"))
    assert (plan.file_mib, plan.every_s, plan.fresh_first) == (64, 30.0, True)
    assert plan.source == {"kafka.client.id": "me", "maxOffsetsPerTrigger": "5"}
    assert plan.spark == {"spark.executor.memory": "4g"}


def test_a_file_says_it_as_well_and_flags_win(fake: FakeRun, tmp_path: Path) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text('{"type": "record", "name": "Order", "fields": []}')
    file = tmp_path / "orders.toml"
    file.write_text(
        f"""
        topic = "orders"
        bootstrap = "localhost:9092"
        to = "function"
        function = "billing:store"
        checkpoint = "/state"
        value_format = "avro"
        value_schema = "@{schema}"
        from = "2026-11-22T10:00:00Z"
        [source]
        failOnDataLoss = false
        minPartitions = 4
        """
    )
    done = CliRunner().invoke(
        app, ["pipeline", "returns", "--config", str(file), "-X", "minPartitions=8", "--exit-at-end"]
    )
    assert done.exit_code == 0, done.stderr
    (plan,) = fake.plans
    assert (plan.topics, plan.to, plan.function, plan.exit_at_end) == (
        ("returns",),
        Target.FUNCTION,
        "billing:store",
        True,
    )
    assert (plan.value_format, plan.value_schema) == (ValueFormat.AVRO, schema.read_text())
    assert plan.from_ == "@1795341600000"
    assert plan.source == {"failOnDataLoss": "false", "minPartitions": "8"}


def test_each_batch_is_told(fake: FakeRun) -> None:
    assert CliRunner().invoke(app, FLAGS).stderr.splitlines() == [
        "batch 3  1,200,000 rows  350,000/s  lag 3,800,000, 3,700,000 of it backfill  11 s left",
        "batch 9  5,000,000 rows  400,000/s  lag 0  up to date",
    ]
    assert fake.plans


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pipeline", "orders"], "say where Kafka is"),
        (["pipeline", "orders", "-b", "x"], "say where the table is to be"),
        ([*FLAGS, "--from", "-5"], "from -5: a pipeline begins at earliest, at latest, or at a time"),
        ([*FLAGS, "--from", "5"], "from 5: a pipeline begins"),
        ([*FLAGS, "-X", "minPartitions"], "--source minPartitions: write name=value"),
        ([*FLAGS, "--config", "nowhere.toml"], "cannot read nowhere.toml: No such file"),
        ([*FLAGS, "--value-format", "json", "--value-schema", "@nowhere.ddl"], "value_schema: cannot read nowhere.ddl"),
        ([*FLAGS, "--to", "iceberg"], "to is one of parquet, console, function"),
    ],
)
def test_what_cannot_be_meant_is_exit_2(fake: FakeRun, arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert fake.plans == []


def test_a_file_that_is_no_toml_is_told(fake: FakeRun, tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text("topic = orders")
    done = CliRunner().invoke(app, ["pipeline", "--config", str(file)])
    assert (done.exit_code, fake.plans) == (2, [])
    assert f"cannot read {file}: Invalid value" in done.stderr


@pytest.mark.parametrize(("failure", "code"), [(PipelineError("no disk"), 1), (ConfigError("no such function"), 2)])
def test_failures_have_their_exit_codes(fake: FakeRun, failure: Exception, code: int) -> None:
    fake.failure = failure
    done = CliRunner().invoke(app, FLAGS)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (code, f"kwire: {failure}")


def test_without_spark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = CliRunner().invoke(app, FLAGS)
    assert (done.exit_code, done.stderr) == (2, "kwire: pyspark is missing: pip install 'kwire[spark]'\n")


# --- progress -----------------------------------------------------------------------------------------------------


def shown(*figures: Figures) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, record=True)
    bars = Bars("orders", console)
    for each in figures:
        bars(each)
    console.print(bars.progress)
    return console.export_text()


def test_bars_have_rows_rate_lag_and_time_left() -> None:
    text = shown(HALFWAY)
    assert "orders" in text
    assert " 24% 1,200,000 rows  350,000/s  lag 3,800,000  11 s left" in text
    assert "3,700,000 rows behind, the newest are there" in text


def test_the_backfill_s_bar_fills_and_stays() -> None:
    text = shown(HALFWAY, AT_END)
    assert "100% 5,000,000 rows  400,000/s  lag 0  up to date" in text
    assert "backfill" in text
    assert "done" in text


def test_a_pipeline_without_backfill_has_one_bar() -> None:
    assert "backfill" not in shown(AT_END)


def test_bars_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert isinstance(watcher("orders", io.StringIO()), BatchLines)
    assert isinstance(watcher("orders", Terminal()), Bars)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(watcher("orders"), BatchLines)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "not catching up"),
        (0.0, "up to date"),
        (0.4, "0 s left"),
        (119.0, "119 s left"),
        (150.0, "2 min left"),
        (9_000.0, "2 h left"),
        (400_000.0, "5 d left"),
    ],
)
def test_time_left_is_in_the_largest_unit_that_says_enough(seconds: float | None, said: str) -> None:
    assert left(seconds) == said


def test_lag_without_backfill_says_nothing_of_it() -> None:
    assert described(AT_END) == "batch 9  5,000,000 rows  400,000/s  lag 0  up to date"
    assert described(replace(AT_END, lag=None, left_s=None)) == "batch 9  5,000,000 rows  400,000/s  lag unknown"


def test_of_spark_s_pages_the_cause_is_told() -> None:
    pages = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure:\n"
        'org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "worker.py", line 1\n'
        "kwire.spark.errors.DataLossError: [KAFKA_DATA_LOSS.X] Some data may have been lost\n\tat org.apache.Spark\n"
    )
    assert said_by(pages) == "DataLossError: [KAFKA_DATA_LOSS.X] Some data may have been lost"
    assert said_by("[X] no such thing\nplan") == "[X] no such thing"
    query = "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: "
    assert said_by(f"{query}[USER_RAISED_EXCEPTION] it does not fit\nplan") == "[USER_RAISED_EXCEPTION] it does not fit"


# --- how Kafka is reached ------------------------------------------------------------------------------------------


def test_the_environment_wins_over_files_and_flags_win_over_both(
    fake: FakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "bootstrap.servers=properties:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=properties\n"
        "sasl.password=properties\nssl.protocol=TLSv1.3\n"
    )
    toml = tmp_path / "orders.toml"
    toml.write_text('bootstrap = "toml:1"\n[kafka]\nfetch.min.bytes = 7\nsasl_mechanism = "SCRAM-SHA-256"\n')
    monkeypatch.setenv("KWIRE_SASL_PASSWORD", "environment")
    monkeypatch.setenv("KWIRE_SASL_USERNAME", "environment")
    monkeypatch.setenv("KWIRE_GROUP_ID", "of-other-commands")
    flags = ["pipeline", "orders", "--path", "/data", "--config", str(toml), "--kafka-config", str(properties)]
    done = CliRunner().invoke(app, [*flags, "--kafka", "sasl_username=flag"])
    assert done.exit_code == 0, done.stderr
    (plan,) = fake.plans
    assert plan.bootstrap == "properties:1"
    assert plan.source == {
        "kafka.fetch.min.bytes": "7",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "flag",
        "kafka.sasl.password": "environment",
    }
    assert "environment" not in repr(plan)


def test_brokers_may_come_from_the_environment_alone(fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIRE_BOOTSTRAP_SERVERS", "there:9092")
    done = CliRunner().invoke(app, ["pipeline", "orders", "--path", "/data"])
    assert done.exit_code == 0, done.stderr
    assert fake.plans[0].bootstrap == "there:9092"


@pytest.mark.parametrize("flag", [["--kafka", "sasl.password=seen"], ["-X", "kafka.sasl.password=seen"]])
def test_a_secret_in_a_flag_is_warned_of(fake: FakeRun, flag: list[str], caplog: pytest.LogCaptureFixture) -> None:
    CliRunner().invoke(app, [*FLAGS, *flag])
    (message,) = caplog.messages
    assert "sasl.password: every user of this machine can see a secret on the command line" in message
    assert "seen" not in message
