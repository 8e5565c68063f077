"""Proofs that are schedules of the fault harness (`kwire/testing/faults`): `scripts/prove mixed-groups`,
`rolling-restart` and `parallel-rebalance`.

The harness starts Kafka, the members and the traffic, carries out the changes, and judges what all members printed by
the invariants of `kwire/testing/invariants`. Here is only what is done to whom, and how soon all has to be well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from kwire.cli.faults_output import MAX_VIOLATIONS, ProgressLine, tell
from kwire.testing.faults import harness
from kwire.testing.faults.bounds import within
from kwire.testing.faults.catalogue import strike
from kwire.testing.faults.order import RunOrder
from kwire.testing.faults.scenario_rows import EXACT
from kwire.testing.faults.scenarios import scenarios
from kwire.testing.faults.schedule import GroupProtocol, MembersLine, Schedule, Step, TopicPlan
from kwire.testing.faults.targets import AllBrokers, OneMember

FIRST_MS = 7_000
# A member that leaves is given time to be missed, and to come back, before the next one goes.
BETWEEN_MS = 8_000
AWAY_MS = 4_000
DEAD_MS = 14_000
END_MS = 6_000
RESTART_MS = 15_000
PROTOCOLS: tuple[GroupProtocol, ...] = ("classic", "consumer")
LAG_SCENARIO = "row-49"

ASSIGNORS: dict[str, tuple[str, ...]] = {
    "range": ("kwire", "java", "confluent"),
    "roundrobin": ("kwire", "java", "confluent"),
    "sticky": ("kwire", "java"),  # librdkafka has no eager sticky one
    "cooperative-sticky": ("kwire", "java", "confluent"),
    "consumer": ("kwire", "java", "confluent"),
}
"""Ways of assigning, and whose clients can take part; "consumer" is the protocol of KIP-848."""


def mixed_groups(
    scenario: Annotated[list[str] | None, typer.Option(help="range, roundrobin, ...; all of them by default")] = None,
    changes: Annotated[int, typer.Option(min=2, help="How often members come or go, in each scenario.")] = 20,
    partitions: Annotated[int, typer.Option(min=1, help="Of the topic.")] = 12,
) -> list[str]:
    """kwire, Java's client and librdkafka (which has no eager sticky assignor) in one group, with both protocols."""
    if unknown := set(scenario or ()) - set(ASSIGNORS):
        raise typer.BadParameter(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(ASSIGNORS)}")
    return carried_out([mixed_group(name, changes, partitions) for name in scenario or ASSIGNORS])


def mixed_group(name: str, changes: int, partitions: int) -> RunOrder:
    """Two members of each client, who go and come back in turn; each second one is killed. Each client is the oldest
    member at some time, and so the leader of a classic group."""
    clients = ASSIGNORS[name]
    protocol: GroupProtocol = "consumer" if name == "consumer" else "classic"
    assignor = None if protocol == "consumer" else name
    members = tuple(MembersLine(count=2, client=each, protocol=protocol, assignor=assignor) for each in clients)
    steps = tuple(_comings_and_goings(changes // 2, len(members)))
    schedule = Schedule(
        title=f"{name}: {', '.join(clients)} in one group",
        brokers=1,
        members=members,
        topics=(TopicPlan(name="orders", partitions=partitions),),
        steps=steps,
        end_ms=max(step.settled_ms for step in steps) + END_MS,
    )
    return RunOrder(schedule=schedule, name=name, bounds={"consumer-close": within(0, "rebalance_slack_ms")})


def _comings_and_goings(count: int, clients: int) -> Iterator[Step]:
    """Each client in turn; of each now one member, now the other, now killed, now closed."""
    at_ms = FIRST_MS
    for number in range(count):
        round_number, client = divmod(number, clients)
        is_kill = (round_number + client) % 2 == 1
        fault, lasts_ms = ("consumer-kill", DEAD_MS) if is_kill else ("consumer-close", AWAY_MS)
        yield strike(at_ms, fault, OneMember(2 * client + round_number % 2), lasts_ms=lasts_ms)
        at_ms += BETWEEN_MS + lasts_ms


def rolling_restart(
    rounds: Annotated[int, typer.Option(min=1, max=10, help="How often each broker is restarted.")] = 5,
    protocol: Annotated[list[str] | None, typer.Option(help="classic or consumer; both by default")] = None,
) -> list[str]:
    """Brokers restart one after the other: no rebalance, nothing lost, nothing twice."""
    chosen = [each for each in PROTOCOLS if not protocol or each in protocol]
    return carried_out([rolling(each, rounds, static=static) for each in chosen for static in (False, True)])


def rolling(protocol: GroupProtocol, rounds: int, *, static: bool) -> RunOrder:
    """Three brokers, each partition on all of them, three members. As in Kafka's own test of rolling bounces, that is
    no reason for a rebalance: coordinators move, members stay."""
    lasts_ms = 3 * RESTART_MS * rounds
    restarts = strike(FIRST_MS, "rolling-restart", AllBrokers(), lasts_ms=lasts_ms, rounds=rounds)
    schedule = Schedule(
        title=f"{rounds} rolling restarts, {protocol}, {'static' if static else 'dynamic'} members",
        members=(MembersLine(count=3, protocol=protocol, static=static),),
        steps=(restarts,),
        end_ms=restarts.settled_ms + END_MS,
    )
    name = f"{protocol}, {'static' if static else 'dynamic'}"
    return RunOrder(schedule=schedule, name=name, bounds={"rolling-restart": within(2_000)}, expects=EXACT)


def parallel_rebalance(
    rounds: Annotated[int, typer.Option(min=1, help="How often members end at each moment of catching up.")] = 2,
    protocol: Annotated[list[str] | None, typer.Option(help="classic or consumer; both by default")] = None,
) -> list[str]:
    """A member that ends while catching up skips nothing, and repeats only what was not committed."""
    return carried_out([catching_up(each, rounds) for each in PROTOCOLS if not protocol or each in protocol])


def catching_up(protocol: GroupProtocol, rounds: int) -> RunOrder:
    """The row of the table of faults that is about it, as often as asked for."""
    row = scenarios()[LAG_SCENARIO]
    once = row.schedule
    span_ms = once.end_ms
    steps = tuple(replace(step, at_ms=step.at_ms + number * span_ms) for number in range(rounds) for step in once.steps)
    members = tuple(replace(each, protocol=protocol) for each in once.members)
    schedule = replace(once, members=members, steps=steps, end_ms=rounds * span_ms)
    return RunOrder(schedule=schedule, name=protocol, bounds=row.row.bounds, expects=row.expects)


def carried_out(orders: Sequence[RunOrder]) -> list[str]:
    """Run them one after the other, tell the figures, and answer what was broken."""
    outcomes = []
    for order in orders:
        with ProgressLine(order.name, end_ms=order.schedule.end_ms) as progress:
            outcomes.append(harness.run(order, progress))
    if tell(outcomes):
        return []
    broken = [f"{outcome.run.name}: {violation}" for outcome in outcomes for violation in outcome.run.violations]
    return broken[:MAX_VIOLATIONS] or ["something was late; see above"]
