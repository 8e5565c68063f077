"""`scripts/prove event-loops`: a blocked event loop costs no membership, and a cancelled poll no record.

blocked: a member's handler blocks its loop for ten sessions, while another member of the group polls on. The group must
not rebalance. The same is tried with aiokafka, whose heartbeats come from the loop; that is told, and breaks nothing.
cancellations: polls are cancelled at random moments, thousands of times, on asyncio and on trio. Each record has to be
returned once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from benchmarks.throughput.turn import AIOKAFKA, environment_of
from kwire import Consumer
from kwire.testing.kafka import KafkaCluster
from proofs.group import make_topic
from tools.topic_filling import Entry, fill

HERE = Path(__file__).parent
PARTS = ("blocked", "cancellations")
CLIENTS = ("kwire-asyncio", "kwire-trio", "aiokafka")
SESSION_MS = 6_000
PARTITIONS = 2
RECORDS = 2_000
TIMEOUT_S = 60.0


def event_loops(
    part: Annotated[list[str] | None, typer.Option(help=f"({', '.join(PARTS)})")] = None,
    seconds: Annotated[float, typer.Option(help="how long the loop is blocked")] = 60.0,
    cancellations: Annotated[int, typer.Option(help="how many polls are cancelled on each library")] = 10_000,
    seed: Annotated[int, typer.Option(help="of the moments of cancellation")] = 1,
) -> Sequence[str]:
    """A blocked event loop costs no membership, and a cancelled poll no record."""
    broken: list[str] = []
    with KafkaCluster() as kafka:
        topic = f"loops-{uuid4().hex[:8]}"
        make_topic(kafka.bootstrap_servers, topic, PARTITIONS)
        fill(kafka.bootstrap_servers, topic, (Entry(number % PARTITIONS, b"%d" % number) for number in range(RECORDS)))
        if not part or "cancellations" in part:
            broken += _cancel(kafka.bootstrap_servers, topic, cancellations, seed)
        if not part or "blocked" in part:
            for client in CLIENTS:
                broken += _block(kafka.bootstrap_servers, topic, client, seconds)
    return broken


# --- cancellations ------------------------------------------------------------------------------------------------


def _cancel(servers: str, topic: str, wanted: int, seed: int) -> Iterator[str]:
    for library in ("asyncio", "trio"):
        command = [sys.executable, str(HERE / "cancelling.py"), library, servers, topic, str(RECORDS)]
        done = subprocess.run([*command, str(wanted), str(seed)], stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(done.stdout)
        print(
            f"{library}: {told['cancelled']} polls cancelled; {told['returned']} records returned, "
            f"{told['lost']} lost, {told['repeated']} twice"
        )
        if told["lost"] or told["repeated"]:
            yield f"{library}: polls that were cancelled lost {told['lost']} records and repeated {told['repeated']}"


# --- a loop that is blocked ---------------------------------------------------------------------------------------


def _block(servers: str, topic: str, client: str, seconds: float) -> Iterator[str]:
    group = f"blocked-{uuid4().hex[:8]}"
    changes: list[object] = []
    settings = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": SESSION_MS // 3}
    with Consumer(settings, bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as other:
        note = lambda _, partitions: changes.append(partitions)  # noqa: E731  what the other member is told
        other.subscribe(topic, on_assigned=note, on_revoked=note)
        with _member(client, servers, topic, group, seconds) as member:
            _settle(other)
            _read_line(member, "blocked", other)
            _settle(other)
            before, until_s = len(changes), time.monotonic() + seconds - 2 * SESSION_MS / 1000.0
            while time.monotonic() < until_s:
                other.poll(0.5)
            during = len(changes) - before
            kept = len(other.assignment()) < PARTITIONS
    print(f"{client}: blocked for {seconds:.0f} s of sessions of {SESSION_MS / 1000:.0f} s: ", end="")
    print(f"{during} callbacks of a rebalance, {'its partition kept' if kept else 'its partition lost'}")
    if client.startswith("kwire") and (during or not kept):
        yield f"{client}: the group has given up a member whose event loop was blocked"


def _settle(other: Consumer) -> None:
    """Until the group has heard of all that has happened so far, in every protocol and client."""
    until_s = time.monotonic() + 3.0
    while time.monotonic() < until_s:
        other.poll(0.2)


@contextmanager
def _member(client: str, servers: str, topic: str, group: str, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    environment = environment_of(AIOKAFKA) if client == "aiokafka" else dict(os.environ)
    command = [sys.executable, str(HERE / "blocked_member.py"), client, servers, topic, group, str(SESSION_MS)]
    process = subprocess.Popen([*command, str(seconds)], stdout=subprocess.PIPE, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _read_line(member: subprocess.Popen[bytes], wanted: str, other: Consumer) -> None:
    """Wait for what it prints, polling meanwhile: it joins the group first."""
    assert member.stdout is not None
    os.set_blocking(member.stdout.fileno(), False)
    until_s, said = time.monotonic() + TIMEOUT_S, b""
    while wanted.encode() not in said:
        other.poll(0.1)
        with suppress(BlockingIOError):
            said += os.read(member.stdout.fileno(), 4096)
        if member.poll() is not None or time.monotonic() > until_s:
            raise RuntimeError(f"the member did not get to {wanted!r}: {said!r}")
