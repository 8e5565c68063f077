"""`kwire demo`: a Kafka in this process, sample records, and a consumer group of one that reads them.

Needs no software besides kwire: it is meant as the first command to try.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli.exits import FAILED, clean_exits
from kwire.cli.tables import counted

if TYPE_CHECKING:
    from kwire.testing import Cluster

TOPIC = "orders"
PARTITIONS = 3
CUSTOMERS = ("ada", "grace", "edsger", "barbara")
PATIENCE_S = 10.0


def run_demo(
    records: Annotated[
        int, typer.Option("--records", "-n", metavar="N", min=1, max=100_000, help="How many records.")
    ] = 12,
) -> None:
    """Start a Kafka in memory, write records, and read them.

    The records are read in a group. This needs no broker and no Java, and leaves nothing behind.
    """
    with clean_exits():
        from kwire.testing import Cluster

        with Cluster(topics={TOPIC: PARTITIONS}) as cluster:
            print(f"A Kafka of one broker runs in this process: {cluster.bootstrap_servers}")
            write_orders(cluster, records)
            print(f"The topic {TOPIC!r} has {counted(records, 'record')}. The group 'billing' reads:\n")
            arrived = read_orders(cluster.bootstrap_servers, records)
        if arrived < records:
            print(f"\n{counted(records - arrived, 'record')} did not come within {PATIENCE_S:.0f} s.")
            raise typer.Exit(FAILED)
        print(f"\n{counted(records, 'record')} read and committed. The broker is gone.")


def write_orders(cluster: Cluster, count: int) -> None:
    """Write orders; those of one customer go to one partition."""
    from kwire.testing import NewRecord

    for number in range(count):
        customer = number % len(CUSTOMERS)
        value = f'{{"order": {number}, "cents": {number * 737 % 10_000}}}'
        record = NewRecord(key=CUSTOMERS[customer].encode(), value=value.encode())
        cluster.produce(TOPIC, record, partition=customer % PARTITIONS)


def read_orders(bootstrap_servers: str, count: int) -> int:
    """Print records until all were read. Returns how many came."""
    from kwire.consumer.sync import Consumer

    arrived, give_up_s = 0, time.monotonic() + PATIENCE_S
    with Consumer(
        TOPIC, bootstrap_servers=bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        while arrived < count and time.monotonic() < give_up_s:
            for record in consumer.poll(1.0):
                arrived += 1
                print(
                    f"partition {record.partition}  offset {record.offset}  {_text(record.key):8}{_text(record.value)}"
                )
    return arrived


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode()
