"""Java's VerifiableConsumer and kwire's, side by side on a real Kafka: same lines, same totals, same exits."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import pytest

from kwire.testing.kafka.tools import verifiable_consumer_command

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.kafkas import SharedKafka

pytestmark = [pytest.mark.slow, pytest.mark.only("kafka", reason="Java's client runs beside kwire's")]

TIMEOUT_S = 90.0
PARTITIONS = 3
RECORDS = 1_800  # several polls of 500
AWKWARD: list[bytes | None] = [None, b"", b"\xff\xfe", b"\xe4\xb8\x96\xf0\x9f\x98\x80", b'"\\/\x00\x1f\n', b"\xc3"]

Event: TypeAlias = dict[str, object]
Command: TypeAlias = Callable[..., list[str]]
Place: TypeAlias = tuple[int, int]


def kwire_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kwire.verifiable_consumer", *arguments]


COMMANDS: dict[str, Command] = {"java": verifiable_consumer_command, "kwire": kwire_command}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program ended, and all it said."""

    exit_code: int
    events: list[Event]
    stderr: str

    def names(self) -> list[object]:
        """What happened, in order; as many polls as there were count as one."""
        return [name for name, _ in itertools.groupby(_steps(self.events))]

    def told(self, name: str) -> list[Event]:
        return [event for event in self.events if event["name"] == name]

    def records(self) -> dict[Place, tuple[object, object]]:
        """Key and value by partition and offset; each was told once."""
        told = {_place(event): (event["key"], event["value"]) for event in self.told("record_data")}
        assert len(told) == len(self.told("record_data"))
        return told

    def consumed(self) -> dict[int, int]:
        """How many records of each partition were told of; without gaps, since these logs have none."""
        counts: dict[int, int] = {}
        for part in _parts(self.told("records_consumed"), "partitions"):
            first, last, count = (_number(part, field) for field in ("minOffset", "maxOffset", "count"))
            assert last - first + 1 == count
            counts[_number(part, "partition")] = counts.get(_number(part, "partition"), 0) + count
        return counts

    def committed(self) -> dict[int, int]:
        """The last commit of each partition."""
        parts = _parts(self.told("offsets_committed"), "offsets")
        return {_number(part, "partition"): _number(part, "offset") for part in parts}

    def shapes(self) -> dict[object, set[str]]:
        """The fields of each kind of event, in order, with their types."""
        found: dict[object, set[str]] = {}
        for event in self.events:
            found.setdefault(event["name"], set()).add(_shape(event))
        return found


def _steps(events: list[Event]) -> list[object]:
    """Names, where a poll is what came of it: records, their sum, and the commit."""
    poll = ("record_data", "records_consumed", "offsets_committed")
    return ["poll" if event["name"] in poll else event["name"] for event in events]


def _shape(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_shape(field)}" for name, field in value.items()) + "}"
    if isinstance(value, list):
        return f"[{' | '.join(sorted({_shape(item) for item in value}))}]"
    return type(value).__name__


def _parts(events: list[Event], field: str) -> list[Event]:
    parts: list[Event] = []
    for event in events:
        listed = event[field]
        assert isinstance(listed, list)
        parts += listed
    return parts


def _number(event: Event, field: str) -> int:
    number = event[field]
    assert isinstance(number, int)
    return number


def _place(event: Event) -> Place:
    return _number(event, "partition"), _number(event, "offset")


def finish(process: subprocess.Popen[bytes], before: Sequence[bytes] = ()) -> Ran:
    out, err = process.communicate(timeout=TIMEOUT_S)
    events = [json.loads(line) for line in [*before, *out.splitlines()]]
    return Ran(exit_code=process.returncode, events=events, stderr=err.decode())


@contextmanager
def started(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, killed at the end of the block or when its time is up, which then fails the test that reads of it.

    Its pipes have no buffer: `communicate` would not see what a `readline` before it had left in one.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMANDS[program](*arguments), stdout=pipe, stderr=pipe, bufsize=0) as process:
        guard = Timer(TIMEOUT_S, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()


def run(program: str, *arguments: str) -> Ran:
    with started(program, *arguments) as process:
        return finish(process)


def run_both(*arguments: str) -> tuple[Ran, Ran]:
    """Java's program and kwire's with the same arguments, each in a group of its own."""
    with ThreadPoolExecutor(2) as pool:
        java, kwire = pool.map(lambda program: run(program, *arguments, "--group-id", new_group()), COMMANDS)
    return java, kwire


def new_group() -> str:
    return f"verifiable-{uuid4().hex[:8]}"


def in_words(parameter: object) -> str:
    """A parameter of a test, for its id."""
    return " ".join(parameter) if isinstance(parameter, tuple) else str(parameter)


@pytest.fixture(scope="module")
def filled(topic: MakeTopic, produce: Produce) -> str:
    """A topic with records in all its partitions, some of them with keys and values that are hard to write as JSON."""
    name = topic(PARTITIONS)
    for partition in range(PARTITIONS):
        plain = [b"value %d" % number for number in range(RECORDS // PARTITIONS - len(AWKWARD))]
        keys: list[bytes | None] = [*AWKWARD[::-1], *plain]
        produce(name, [*AWKWARD, *plain], keys=keys, partition=partition)
    return name


@pytest.fixture
def reading(kafka: SharedKafka, filled: str) -> tuple[str, ...]:
    """The arguments for it."""
    return ("--bootstrap-server", kafka.bootstrap_servers, "--topic", filled)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_both_tell_the_same_of_the_same_records(reading: tuple[str, ...], protocol: str) -> None:
    java, kwire = run_both(*reading, "--group-protocol", protocol, "--verbose", "--max-messages", str(RECORDS))
    assert kwire.names() == java.names()
    assert kwire.shapes() == java.shapes()
    assert kwire.records() == java.records()
    assert len(kwire.records()) == RECORDS
    assert kwire.consumed() == java.consumed() == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    assert kwire.committed() == java.committed() == kwire.consumed()
    assert kwire.exit_code == java.exit_code == 0
    assert kwire.stderr == ""


def test_one_goes_on_where_the_other_stopped(reading: tuple[str, ...]) -> None:
    """In one group, one after the other: between them each record once, and the last commit is the end."""
    arguments = (*reading, "--group-id", new_group(), "--verbose", "--max-messages")
    parts = [run(program, *arguments, str(RECORDS // 3)) for program in ("java", "kwire", "java")]
    told = [place for part in parts for place in part.records()]
    assert len(told) == len(set(told)) == RECORDS
    committed: dict[int, int] = {}
    for part in parts:
        committed |= part.committed()
    assert committed == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (signal.SIGTERM, ("--group-protocol", "classic")),
        (signal.SIGINT, ("--group-protocol", "consumer", "--enable-autocommit")),
    ],
    ids=in_words,
)
def test_a_signal_ends_both_alike(reading: tuple[str, ...], number: signal.Signals, arguments: tuple[str, ...]) -> None:
    def signalled(program: str) -> Ran:
        with started(program, *reading, *arguments, "--group-id", new_group()) as process:
            assert process.stdout is not None
            lines = read_until_all_is_told(process.stdout.readline)
            process.send_signal(number)
            return finish(process, lines)

    with ThreadPoolExecutor(2) as pool:
        java, kwire = pool.map(signalled, COMMANDS)
    assert kwire.exit_code == java.exit_code == 128 + number
    assert kwire.names()[:3] == java.names()[:3] == ["startup_complete", "partitions_assigned", "poll"]
    # The last commit and the signal cross at times, in either of them: the order of just these two is chance.
    ending = ["partitions_revoked", "shutdown_complete"]
    for ran in (java, kwire):
        assert sorted(map(str, ran.names()[3:-2])) in (["shutdown_requested"], ["poll", "shutdown_requested"])
        assert ran.names()[-2:] == ending
    assert kwire.shapes() == java.shapes()
    if "--enable-autocommit" not in arguments:
        assert kwire.committed() == java.committed() == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    assert kwire.stderr == ""


def read_until_all_is_told(readline: Callable[[], bytes]) -> list[bytes]:
    """Lines, up to the one that tells of the last record; in a pipe, they come as they are written."""
    lines: list[bytes] = []
    left = RECORDS
    while left:
        lines.append(readline())
        event = json.loads(lines[-1])
        left -= event["count"] if event["name"] == "records_consumed" else 0
    return lines


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("--reset-policy", "none"), 0),
        (("--no-such-flag",), 1),
        (("--group-protocol", "consumer", "--session-timeout", "30000"), 1),
    ],
    ids=in_words,
)
def test_what_goes_wrong_ends_both_alike(reading: tuple[str, ...], arguments: tuple[str, ...], exit_code: int) -> None:
    java, kwire = run_both(*reading, *arguments)
    assert kwire.exit_code == java.exit_code == exit_code
    assert kwire.names() == java.names()
    assert kwire.shapes() == java.shapes()
    assert bool(kwire.stderr) == bool(java.stderr)


def test_a_signal_ends_waiting_for_a_topic_that_does_not_exist(kafka: SharedKafka) -> None:
    arguments = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", new_group(), "--group-id", new_group())
    with started("kwire", *arguments) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        ran = finish(process, [first])
    assert ran.names() == ["startup_complete", "shutdown_requested", "shutdown_complete"]
    assert ran.exit_code == 128 + signal.SIGTERM
