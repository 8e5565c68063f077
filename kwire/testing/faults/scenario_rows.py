"""The table of faults as data: each row's schedule and what has to come of it; as long as the table.

Read by `scenarios.py`. A schedule says nothing of what is as by default: three brokers, three members, and a topic
`orders` of six partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kwire.testing.faults.bounds import Bound, within

ONE_ROUND_MS = 2_000
STARTING_MS = 5_000
AWAY_MS = 4_000


class Expectation(Enum):
    """What has to hold beside the invariants, which hold always."""

    NO_REBALANCE = "nobody who stays loses partitions, other than to who has joined"
    NO_DUPLICATES = "nothing is delivered twice"
    REFUSAL_TOLD = "who may not is told so, by its polls"
    CAUGHT_UP = "there are lags, and children give what is in them"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """A row of the table of faults, as a schedule.

    Args:
        bounds: by fault, where the row's is tighter than the catalogue's.
    """

    number: int
    title: str
    text: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    expects: tuple[Expectation, ...] = ()


STAYS = (Expectation.NO_REBALANCE,)
EXACT = (Expectation.NO_REBALANCE, Expectation.NO_DUPLICATES)

ROWS: tuple[FaultRow, ...] = (
    FaultRow(
        number=1,
        title="the process of a leader is killed",
        text="""
        at 10s  broker-kill leader orders-0 for 20s
        end 45s
        """,
        bounds={"broker-kill": within(2_000, "broker_session_timeout_ms")},
        expects=STAYS,
    ),
    FaultRow(
        number=2,
        title="brokers are restarted, one after the other, five times",
        text="""
        at 10s  broker-stop broker 0 for 10s
        at 35s  rolling-restart all rounds 5 for 225s
        end 270s
        """,
        bounds={"rolling-restart": within(2_000)},
        expects=EXACT,
    ),
    FaultRow(
        number=3,
        title="a leader moves",
        text="""
        at 10s  leader-move partition orders-0
        at 15s  leader-move partition orders-1
        at 20s  leader-move topic orders
        end 30s
        """,
        bounds={"leader-move": within(1_000)},
        expects=EXACT,
    ),
    FaultRow(
        number=5,
        title="the coordinator moves and loads",
        text="""
        members 3 kwire consumer auto-commit
        at 10s  coordinator-move group
        at 20s  coordinator-move group
        at 30s  coordinator-move group
        end 40s
        """,
        bounds={"coordinator-move": within(2_000)},
        expects=EXACT,
    ),
    FaultRow(
        number=7,
        title="the clients and one broker are cut off from each other",
        text="""
        set session_timeout_ms 20s
        at 10s  partition-broker broker 0 for 10s
        at 40s  partition-broker broker 1 for 10s
        at 70s  partition-broker coordinator for 10s
        end 90s
        """,
        bounds={"partition-broker": within(0, "request_timeout_ms")},
        expects=STAYS,
    ),
    FaultRow(
        number=8,
        title="the clients are cut off from all brokers for less than a session",
        text="""
        at 10s  partition-all all for 5s
        at 30s  partition-all all for 5s
        end 45s
        """,
        bounds={"partition-all": within(2_000)},
        expects=STAYS,
    ),
    FaultRow(
        number=9,
        title="the clients are cut off from all brokers for more than a session",
        text="""
        at 10s  partition-all all for 25s
        end 60s
        """,
    ),
    FaultRow(
        number=10,
        title="connections are half open, a broker stands still, connections end late",
        text="""
        at 10s  half-open all for 20s
        at 45s  slow-close all 5s for 15s
        at 70s  broker-freeze leader orders-0 for 25s
        end 110s
        """,
        bounds={"half-open": within(0, "request_timeout_ms")},
    ),
    FaultRow(
        number=11,
        title="connections go nowhere, and are refused",
        text="""
        set socket_connection_setup_timeout_ms 2s
        at 10s  black-hole broker 0 for 8s
        at 30s  refused broker 1 for 8s
        at 50s  black-hole all for 15s
        at 90s  refused all for 15s
        end 120s
        """,
    ),
    FaultRow(
        number=12,
        title="the network is slow, and its delay varies",
        text="""
        at 10s  latency all 100ms jitter 1s for 60s
        at 10s  bandwidth all 3000kbit for 60s
        end 80s
        """,
        expects=STAYS,
    ),
    FaultRow(
        number=13,
        title="bytes come in slices",
        text="""
        rate 50/s
        at 10s  slicer all 4B vary 3B pause 10us for 30s
        end 50s
        """,
        expects=EXACT,
    ),
    FaultRow(
        number=14,
        title="connections live for a second",
        text="""
        at 10s  chaos-dialer all from 500ms to 1500ms for 60s
        end 80s
        """,
    ),
    FaultRow(
        number=15,
        title="answers are cut, and connections with them",
        text="""
        at 10s  limit-data all 1B for 5s
        at 20s  limit-data all 7B for 5s
        at 30s  limit-data all 333B for 5s
        at 40s  limit-data all 4099B for 5s
        at 50s  limit-data all 20011B for 5s
        at 60s  reset all for 5s
        end 75s
        """,
    ),
    FaultRow(
        number=16,
        title="frames of impossible lengths, and of nobody's request",
        text="""
        at 10s  oversized-frame all for 8s
        at 25s  oversized-frame all zero for 8s
        at 40s  oversized-frame all negative for 8s
        at 55s  bit-flip all header for 8s
        end 75s
        """,
        expects=STAYS,
    ),
    FaultRow(
        number=17,
        title="a bit is flipped under the checksum, in front of the records, and in it",
        text="""
        at 10s  bit-flip all payload for 15s
        at 35s  bit-flip all crc for 15s
        at 60s  bit-flip all batch-header for 15s
        end 85s
        """,
        expects=STAYS,
    ),
    FaultRow(
        number=19,
        title="a record is larger than a fetch",
        text="""
        at 10s  large-record partition orders-0 2MiB
        at 15s  large-record partition orders-1 8MiB
        end 25s
        """,
        expects=EXACT,
    ),
    FaultRow(
        number=22,
        title="retention overtakes the position",
        text="""
        at 10s  partition-all all for 8s
        at 17s  delete-records topic orders 100%
        at 30s  partition-all all for 8s
        at 31s  retention-cut topic orders for 6s
        end 55s
        """,
        # Both come while nobody can read, and are over shortly before that is.
        bounds={
            "delete-records": within(1_000 + ONE_ROUND_MS, "request_timeout_ms"),
            "retention-cut": within(1_000 + ONE_ROUND_MS, "request_timeout_ms"),
        },
    ),
    FaultRow(
        number=23,
        title="records are deleted, and compacted away, where members read",
        text="""
        at 10s  delete-records topic orders 60%
        at 15s  delete-records partition orders-0 100%
        at 20s  compaction topic orders for 30s
        at 32s  partition-all all for 6s
        end 60s
        """,
        # Who reads at once is ahead of the cleaner: so positions stand still for a while in what it takes away.
        bounds={"partition-all": within(2_000)},
        expects=STAYS,
    ),
    FaultRow(
        number=24,
        title="an unclean election takes what was read",
        text="""
        at 10s  unclean-election partition orders-0 for 30s
        end 60s
        """,
        expects=STAYS,
    ),
    FaultRow(
        number=27,
        title="transactions hang, abort, end",
        text="""
        members 3 kwire consumer read-committed
        at 10s  open-transaction partition orders-0 aborted for 10s
        at 25s  open-transaction partition orders-1 committed for 10s
        at 40s  open-transaction partition orders-0 committed for 5s
        end 55s
        """,
        expects=EXACT,
    ),
    FaultRow(
        number=28,
        title="a static member is restarted within its session",
        text="""
        members 3 kwire classic static
        set session_timeout_ms 20s
        at 15s  consumer-close member 0 for 4s
        at 40s  consumer-kill member 1 for 4s
        end 65s
        """,
        bounds={
            "consumer-close": within(AWAY_MS + STARTING_MS + ONE_ROUND_MS),
            "consumer-kill": within(AWAY_MS + STARTING_MS + ONE_ROUND_MS),
        },
        expects=STAYS,
    ),
    FaultRow(
        number=29,
        title="two members have one instance id",
        text="""
        members 3 kwire classic static
        at 15s  duplicate-instance member 1 for 20s
        end 50s
        """,
        bounds={"duplicate-instance": within(10_000)},
    ),
    FaultRow(
        number=30,
        title="a process is stopped for two sessions",
        text="""
        at 15s  consumer-freeze member 1 for 20s
        end 55s
        """,
    ),
    FaultRow(
        number=31,
        title="commits meet a member epoch that is not theirs any more",
        text="""
        members 4 kwire consumer
        rate 1000/s
        at 15s  storm group 20 for 60s
        end 85s
        """,
    ),
    FaultRow(
        number=32,
        title="a commit hears that the membership is over",
        text="""
        members 3 kwire classic
        at 15s  member-expelled member 0
        at 25s  member-expelled member 1
        at 40s  consumer-freeze member 2 for 15s
        end 75s
        """,
    ),
    FaultRow(
        number=33,
        title="a handler takes longer than the poll interval",
        text="""
        at 15s  poll-interval-exceeded member 0 for 25s
        end 60s
        """,
        bounds={"poll-interval-exceeded": within(2_000, "max_poll_interval_ms", "rebalance_slack_ms")},
    ),
    FaultRow(
        number=34,
        title="a consumer is slow for ten minutes",
        text="""
        rate 60/s
        at 15s  slow-consumer member 0 100ms for 600s
        end 620s
        """,
        expects=EXACT,
    ),
    FaultRow(
        number=38,
        title="a storm of members",
        text="""
        members 4 kwire classic assignor cooperative-sticky
        at 15s  storm group 20 for 40s
        end 60s
        """,
        bounds={"storm": within(0, "max_poll_interval_ms")},
    ),
    FaultRow(
        number=39,
        title="a topic is deleted and recreated",
        text="""
        topic orders partitions 6
        topic invoices partitions 2
        at 10s  topic-recreate topic orders partitions 3 for 5s
        at 30s  topic-delete topic invoices
        end 55s
        """,
    ),
    FaultRow(
        number=40,
        title="a topic grows",
        text="""
        at 10s  partition-growth topic orders 2
        at 25s  partition-growth topic orders 4
        end 45s
        """,
    ),
    FaultRow(
        number=41,
        title="the permission to read is taken away: of the topic, then of the group",
        text="""
        at 10s  topic-forbidden topic orders for 10s
        at 35s  group-forbidden group for 15s
        end 65s
        """,
        # Longer than a session: no member of before is in the way of those that come again.
        bounds={"group-forbidden": within(2_000, "rebalance_slack_ms")},
        expects=(Expectation.REFUSAL_TOLD,),
    ),
    FaultRow(
        number=42,
        title="fetches are throttled, then all requests",
        text="""
        at 10s  quota all 16KiB for 20s
        at 45s  quota all 64MiB requests 1% for 20s
        end 85s
        """,
        expects=STAYS,
    ),
    FaultRow(
        number=43,
        title="errors that nobody knows; brokers are rolled back to an older release, and forth",
        text="""
        at 10s  unknown-error all fetches every 2 for 8s
        at 25s  unknown-error all commits every 2 for 8s
        at 40s  unknown-error all metadata every 1 for 8s
        at 55s  rolling-downgrade all for 90s
        end 155s
        """,
        expects=STAYS,
    ),
    FaultRow(
        number=45,
        title="the wall clock steps; a process stands still for less than a session",
        text="""
        at 15s  clock-jump group 3600s for 15s
        at 40s  clock-jump group -3600s for 15s
        at 60s  consumer-freeze member 1 for 5s
        end 80s
        """,
        bounds={"consumer-freeze": within(STARTING_MS + ONE_ROUND_MS)},
        expects=STAYS,
    ),
    FaultRow(
        number=46,
        title="processes are killed wherever they are",
        text="""
        members 4 kwire consumer
        rate 1000/s
        at 15s    consumer-kill member 0 for 5s
        at 21.3s  consumer-kill member 1 for 5s
        at 27.1s  consumer-kill member 2 for 5s
        at 33.7s  consumer-kill member 0 for 5s
        at 39.9s  consumer-kill member 3 for 5s
        at 46.4s  consumer-kill member 1 for 5s
        end 75s
        """,
    ),
    FaultRow(
        number=48,
        title="closing: idle, beside one that joins, beside one that was killed, cut off from all brokers",
        text="""
        members 4 kwire consumer
        at 15s  consumer-close member 0 for 5s
        at 35s  consumer-join group
        at 35s  consumer-close member 1 for 5s
        at 55s  consumer-kill member 2 for 15s
        at 66s  consumer-close member 3 for 5s
        at 90s  partition-all all for 6s
        at 91s  consumer-close member 0 for 10s
        end 120s
        """,
    ),
    FaultRow(
        number=49,
        # Who was killed comes back when its session is over: earlier, it would get its own lag, and no other has one.
        title="members end while they catch up with a lag, in the hand-over, and between the commits of two cursors",
        text="""
        members 3 kwire consumer parallel-rebalance
        rate 300/s
        set session_timeout_ms 6s
        at 10s  latency all 20ms for 62s
        at 12s  consumer-kill member 0 for 8s
        at 16s  catch-up-end member 1 catching-up for 10s
        at 21s  delete-records topic orders 90%
        at 32s  consumer-kill member 0 for 8s
        at 33s  catch-up-end member 2 handed-over for 13s
        at 44s  catch-up-end member 1 between-commits for 10s
        at 50s  catch-up-end member 0 between-commits for 10s
        at 62s  consumer-kill member 2 for 8s
        at 63s  catch-up-end member 1 closed for 12s
        end 84s
        """,
        # Some of what is deleted has no owner then, and its next one is killed as well.
        bounds={"delete-records": within(2_000, "session_timeout_ms", "session_timeout_ms", "rebalance_slack_ms")},
        expects=(Expectation.CAUGHT_UP,),
    ),
)

_IN_THE_SIMULATION = "needs answers made up in place of a broker's: the simulation has it"

LEFT_OUT: Mapping[int, str] = {
    4: _IN_THE_SIMULATION,
    6: _IN_THE_SIMULATION,
    18: _IN_THE_SIMULATION,
    20: _IN_THE_SIMULATION,
    21: _IN_THE_SIMULATION,
    25: _IN_THE_SIMULATION,
    26: _IN_THE_SIMULATION,
    35: "kwire has no handlers and no pool of theirs; the loop is the application's",
    36: "callbacks that raise or block are code of the application, which a verifiable consumer has none of",
    37: "needs an interleaving of its own for each case: the simulation has it",
    44: _IN_THE_SIMULATION,
    47: "needs the consumer's own machine to run out of sockets: the simulation has it",
    50: "three brokers have no majority without two of them: the simulation has it",
}
"""Rows that are no schedule, and why."""
