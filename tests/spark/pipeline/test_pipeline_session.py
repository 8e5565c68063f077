"""What a pipeline does about PySpark's ways with Ctrl-C, and with a JVM that is gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.java_gateway import GatewayConnection, GatewayParameters, JavaGateway
from py4j.protocol import Py4JNetworkError

from kwire.errors import ConfigError
from kwire.spark.pipeline.plan import plan_from
from kwire.spark.pipeline.run import PipelineError, run, told_of_lost_jvm
from kwire.spark.pipeline.session import own_ctrl_c, python_of_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_ctrl_c_asks_the_command_to_stop_though_pyspark_installs_a_handler_of_its_own() -> None:
    """A batch under way used to be cancelled, in the middle of a call to the JVM, with pages of tracebacks."""
    before = signal.getsignal(signal.SIGINT)
    with own_ctrl_c():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a new session does
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_session_of_these_tests_leaves_ctrl_c_to_the_others() -> None:
    """In one process with it, tests of what a command does at Ctrl-C ended in a call to the JVM."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class ClosedIfRefused(GatewayConnection):  # type: ignore[misc]  # py4j has no types
    """A connection to the JVM. Py4J leaves the socket of a refused one to the garbage collector, which warns of it
    in the middle of another test."""

    def start(self) -> None:
        try:
            super().start()
        except Py4JNetworkError:
            self.socket.close()
            raise


def test_a_jvm_that_is_gone_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("py4j.java_gateway.GatewayConnection", ClosedIfRefused)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    with pytest.raises(PipelineError, match=r"Spark's JVM is gone \(\w+\); was it killed\?"), told_of_lost_jvm():
        gateway.jvm.System.currentTimeMillis()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"path": "/proc/nowhere"}, "Spark says: .*/proc/nowhere"),
        ({"path": "nowhere://x/y"}, "nowhere"),
        ({"path": "/tmp/x", "partition_by": "Key,key"}, "(?i)key"),
    ],
)
def test_what_spark_refuses_when_it_starts_is_a_wrong_setting_told_in_a_line(
    spark: SparkSession, settings: dict[str, object], said: str
) -> None:
    """It was an error of Py4J's, with the stacks of both languages."""
    plan = plan_from({"topic": "orders", "bootstrap": "127.0.0.1:1", "exit_at_end": True, **settings})
    assert spark.sparkContext is not None
    with pytest.raises(ConfigError, match=said) as raised:
        run(plan, lambda _: None, lambda: False)
    assert "\n" not in str(raised.value)


def test_on_this_machine_processes_have_the_python_that_starts_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users had to ask for it, and most did not: each stream began more than a second later."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    python = python_of_workers("local[*]")
    assert Path(python).name == "kwire-spark-python"
    archive = "/opt/spark/python/lib/pyspark.zip"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([archive, os.environ.get("PYTHONPATH", "")])}
    program = "import sys, pyspark, kwire; print(sys.executable, *sys.path)"
    said = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(said.split()[0]).resolve() == Path(sys.executable).resolve()
    assert archive not in said


def test_where_spark_is_another_one_processes_have_the_python_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a cluster the command may stand in another place; Spark and a PySpark of another version cannot talk."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert python_of_workers("spark://cluster:7077") == sys.executable
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert python_of_workers("local[*]") == sys.executable


def test_where_kwire_has_no_command_processes_have_the_python_of_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    assert python_of_workers("local[2]") == sys.executable
