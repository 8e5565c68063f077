"""One turn in `scripts/bench throughput`: a client's process, what it read, how long it took and what it cost.

Called by `measure.py`. Processor time is the system's account of the whole process, from its start to its end, so
it is the same measure for Python and Java. The peak memory of Java too; readers in Python tell their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.peers import TOP, ensure
from benchmarks.throughput.reader import PARTITION_BYTES
from benchmarks.throughput.topics import Content
from kwire.testing.kafka.jars import find_java, first_error
from kwire.testing.kafka.tools import tools_class_path

if TYPE_CHECKING:
    from collections.abc import Mapping

READER = Path(__file__).with_name("reader.py")
TURN_TIMEOUT_S = 600.0
PEERS = "requirements/bench-clients.txt"
# The heap of Kafka's own start script of the program. Its collector is G1; this one was as fast or faster on two cores.
JAVA_OPTIONS = ("-Xmx512M", "-XX:+UseParallelGC")
JAVA_PROGRAM = "org.apache.kafka.tools.ConsumerPerformance"
JAVA_SETTINGS = "enable.auto.commit=false\n"
JAVA_TUNED = f"{JAVA_SETTINGS}max.partition.fetch.bytes={PARTITION_BYTES}\n"
JAVA_TIMEOUT_MS = 30_000
MIB = 1024 * 1024
JAVA_ROUNDING_BYTES = 64  # it prints MiB with four digits behind the point
MAXRSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


class WrongAnswerError(Exception):
    """A client ended badly, or read something else than what was written; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that reads: its name for the reader, its title for the table.

    Args:
        is_installed_apart: Whether it needs what is pinned for peers alone (`PEERS`).
    """

    name: str
    title: str
    is_installed_apart: bool = False


JAVA = Client(name="java", title="Java")
COLUMNS = Client(name="kwire-columns", title="kwire, columns")
ROWS = Client(name="kwire-rows", title="kwire, rows")
CONSUME = Client(name="confluent-consume", title="confluent consume()")
POLL = Client(name="confluent-poll", title="confluent poll()")
AIOKAFKA = Client(name="aiokafka", title="aiokafka", is_installed_apart=True)
KAFKA_PYTHON = Client(name="kafka-python", title="kafka-python", is_installed_apart=True)
CLIENTS = (COLUMNS, ROWS, JAVA, CONSUME, POLL, AIOKAFKA, KAFKA_PYTHON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The measurements of one process. Rates are records per second; the steady one leaves out all before the first
    record."""

    rate: float
    steady_rate: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The output of a process, and the resources that it used."""

    output: str
    cpu_s: float
    peak_bytes: int


def take(
    client: Client,
    bootstrap_servers: str,
    topic: str,
    content: Content,
    extra: Mapping[str, object] | None = None,
) -> Turn:
    """Let a client read a topic.

    Args:
        extra: What `reader.py` is told besides.

    Raises:
        WrongAnswerError: It did not read what was written.
        PeerError: Its library cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as directory:
        if client is JAVA:
            settings = JAVA_SETTINGS if extra and extra.get("defaults") else JAVA_TUNED
            command = java_command(Path(directory), bootstrap_servers, topic, content.records, settings)
            spent = run_process(command, os.environ)
            return java_turn(spent, content)
        command = [sys.executable, str(READER), client.name, bootstrap_servers, topic, str(content.records)]
        command += [json.dumps(extra)] if extra else []
        return reader_turn(run_process(command, environment_of(client)), content)


def environment_of(client: Client) -> dict[str, str]:
    paths = [str(ensure(PEERS))] if client.is_installed_apart else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(TOP)])}


def java_command(
    directory: Path, bootstrap_servers: str, topic: str, records: int, settings: str = JAVA_TUNED
) -> list[str]:
    file = directory / "consumer.properties"
    file.write_text(settings)
    return [
        *(str(find_java()), *JAVA_OPTIONS, "-Duser.language=en", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
        *("-cp", tools_class_path(), JAVA_PROGRAM, "--bootstrap-server", bootstrap_servers, "--topic", topic),
        *("--messages", str(records), "--group", f"bench-{uuid4().hex[:12]}", "--consumer.config", str(file)),
        *("--timeout", str(JAVA_TIMEOUT_MS), "--hide-header"),
    ]


def run_process(command: list[str], environment: Mapping[str, str]) -> Spent:
    """Run it to its end, which has to be a good one."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment)
        watch = threading.Timer(TURN_TIMEOUT_S, process.kill)
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        output = said.read()
    if process.returncode:
        last = (output.strip().splitlines() or ["it said nothing"])[-1]
        raise WrongAnswerError(f"ended with exit code {process.returncode}: {last}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Spent(output=output, cpu_s=cpu_s, peak_bytes=usage.ru_maxrss * MAXRSS_UNIT_BYTES)


def reader_turn(spent: Spent, content: Content) -> Turn:
    """What `reader.py` said."""
    said = json.loads(spent.output.strip().splitlines()[-1])
    found = Content(records=said["records"], size_bytes=said["size_bytes"], offsets=said["offsets"])
    if found != content:
        raise WrongAnswerError(f"read {found}, instead of {content}")
    steady_s = said["steady_seconds"]
    return Turn(
        rate=content.records / said["seconds"],
        # When all came at once there is nothing to leave out.
        steady_rate=said["steady_records"] / steady_s if said["steady_records"] else content.records / said["seconds"],
        cpu_s=spent.cpu_s,
        peak_bytes=said["peak_bytes"],
    )


def java_turn(spent: Spent, content: Content) -> Turn:
    """What ConsumerPerformance said: a line whose third field is MiB, the fifth and sixth records and their rate.

    It does not add offsets up. Its last field is the rate without the time it took to join the group.
    """
    fields = [field.strip() for field in (spent.output.strip().splitlines() or [""])[-1].split(",")]
    try:
        size_mib, records, rate, steady_rate = float(fields[2]), int(fields[4]), float(fields[5]), float(fields[9])
    except (IndexError, ValueError):
        raise WrongAnswerError(f"said something else: {first_error(spent.output)}") from None
    size_bytes = size_mib * MIB
    if records != content.records or abs(size_bytes - content.size_bytes) > JAVA_ROUNDING_BYTES:
        raise WrongAnswerError(f"read {records:,} records and {size_bytes:,.0f} bytes, instead of {content}")
    return Turn(rate=rate, steady_rate=steady_rate, cpu_s=spent.cpu_s, peak_bytes=spent.peak_bytes)
