"""The pictures of commands, and the cluster in this process that they look at."""

from __future__ import annotations

import itertools
import re
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kwire import Consumer, Header
from kwire.testing import Cluster, NewRecord
from tools.pictures.terminal import drawn, printed, typed

SERVER = "localhost:9092"
"""What the pictures call the broker."""
TOPIC = "orders"
PARTITIONS = 6
MEMBERS = ("billing-1", "billing-2", "billing-3")
RECORDS_PER_TURN = 20
TURN_S = 0.05
CUSTOMERS = (b"ada", b"grace", b"edsger", b"barbara")


@dataclass(frozen=True, slots=True)
class CommandPicture:
    """A command on a terminal: what a person types, and what becomes of it."""

    name: str
    command: str
    columns: int
    code: int = 0
    unseen: str = ""
    """Options that make a command end which a person would stop."""

    @property
    def file(self) -> str:
        return f"{self.name}.svg"

    def draw(self, server: str) -> str:
        """Run it, and draw it."""
        kwire = shlex.join([sys.executable, "-m", "kwire"])
        output = printed(
            self.command.replace("kwire", kwire, 1) + self.unseen,
            columns=self.columns,
            environment={"KWIRE_BOOTSTRAP_SERVERS": server},
            code=self.code,
        )
        seen = re.sub(r"stands for \S+", "stands for 127.0.0.1:9092", output.replace(server, SERVER))
        return drawn(typed(self.command, seen), name=f"kwire-{self.name}", columns=self.columns)


COMMANDS = (
    CommandPicture("consume", r"kwire consume orders --from -2 -e -f '%t-%p at %o, %k: %s\n'", columns=92),
    CommandPicture("doctor", "kwire doctor --topic order --group billing", columns=112, code=1),
    CommandPicture("groups-watch", "kwire groups watch billing", columns=100, unseen=" --count 3 --every 1"),
)


@contextmanager
def group_at_work() -> Iterator[str]:
    """A cluster where a group of three reads what is written; its address."""
    with Cluster(topics={TOPIC: PARTITIONS}) as cluster, ExitStack() as stack:
        members = [stack.enter_context(_member(cluster, name)) for name in MEMBERS]
        while not all(len(member.assignment()) == PARTITIONS // len(MEMBERS) for member in members):
            for member in members:
                member.poll(TURN_S)
        is_over = threading.Event()
        worker = threading.Thread(target=_work, args=(cluster, members, is_over))
        worker.start()
        try:
            yield cluster.bootstrap_servers
        finally:
            is_over.set()
            worker.join()


def _member(cluster: Cluster, name: str) -> Consumer[bytes, bytes]:
    return Consumer(
        TOPIC,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="billing",
        client_id=name,
        group_protocol="consumer",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def _work(cluster: Cluster, members: list[Consumer[bytes, bytes]], is_over: threading.Event) -> None:
    """Write and read in turns. What is read in one is committed in the next, so that there is some lag."""
    numbers, done = itertools.count(), [member.poll(0).next_offsets() for member in members]
    while not is_over.wait(TURN_S):
        for partition in range(PARTITIONS):
            records = [_order(next(numbers)) for _ in range(RECORDS_PER_TURN + 3 * partition)]
            cluster.produce(TOPIC, *records, partition=partition)
        for place, member in enumerate(members):
            member.commit_sync(done[place])
            done[place] = member.poll(TURN_S).next_offsets()


def _order(number: int) -> NewRecord:
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    value = f'{{"order": {number}, "cents": {number * 737 % 10_000}}}'
    return NewRecord(key=customer, value=value.encode(), headers=(Header("via", b"web"),))
