"""`scripts/bench SUITE`: measures kwire against others, in one run, in turns; prints a table, and JSON with --json.

Exit codes: 0 measured; 1 a target of `codec`, `rebalance` or `throughput` was missed, an answer was wrong, or it could
not be measured; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console

from benchmarks import (
    adapters,
    catch_up,
    chart,
    event_loops,
    large_groups,
    latency,
    memory,
    processing,
    scale,
    seeking,
    spark,
    startup,
    tls,
)
from benchmarks.codec import measure as codec
from benchmarks.peers import PeerError
from benchmarks.rebalance import measure as rebalance
from benchmarks.rebalance import report as rebalance_report
from benchmarks.rebalance.group import StuckError
from benchmarks.throughput import measure as throughput
from benchmarks.throughput import report as throughput_report
from benchmarks.throughput.topics import CASES
from benchmarks.throughput.turn import CLIENTS, WrongAnswerError
from benchmarks.turns import Figures, Target, print_table
from kwire.testing.kafka import ClusterError
from tools.evidence import commit, today, write_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Outcome: TypeAlias = "tuple[list[dict[str, object]], list[str]]"
"""The rows of the JSON file, and the targets that were missed."""

MIN_ROUNDS = 5
TABLE_WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    try:
        rows, missed = SUITES[chosen.suite](chosen)
    except (PeerError, ClusterError, StuckError, WrongAnswerError, large_groups.NotSettledError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    if chosen.json is not None:
        facts = {"suite": chosen.suite, "python": platform.python_version(), "machine": platform.platform()}
        chosen.json.write_text(
            json.dumps({**facts, "rounds": getattr(chosen, "rounds", 1), "results": rows}, indent=1) + "\n"
        )
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def measure_codec(chosen: argparse.Namespace) -> Outcome:
    results = codec.run(rounds=max(MIN_ROUNDS, chosen.rounds), seconds=chosen.seconds)
    print("\n".join(codec.table(results)))
    return [result.to_json() for result in results], codec.misses(results)


def measure_rebalance(chosen: argparse.Namespace) -> Outcome:
    settings = [setting for setting in rebalance.offered() if chosen.only in setting.title]
    if chosen.logs is not None:
        chosen.logs.mkdir(parents=True, exist_ok=True)
    results = rebalance.run(rounds=chosen.rounds, chosen=settings, logs=chosen.logs)
    rebalance_report.print_table(results, Console(width=TABLE_WIDTH))
    return [result.to_json() for result in results], rebalance_report.misses(results)


def measure_throughput(chosen: argparse.Namespace) -> Outcome:
    cases = [CASES[name] for name in chosen.case]
    clients = [CLIENTS_BY_NAME[name] for name in chosen.client or CLIENTS_BY_NAME]
    results = throughput.run(
        rounds=chosen.rounds, scale=chosen.scale, chosen=cases, clients=clients, defaults=chosen.defaults
    )
    throughput_report.print_table(results, Console(width=TABLE_WIDTH))
    if chosen.chart is not None:
        how = ", each client in its defaults" if chosen.defaults else ""
        title = f"Records per second, from the start of a topic to its end{how} (median and spread)"
        chosen.chart.write_text(chart.draw(title, throughput_report.panels(results)))
    targets = throughput_report.AS_THEY_COME if chosen.defaults else throughput_report.TARGETS
    return [result.to_json() for result in results], throughput_report.misses(results, targets)


def measure_latency(chosen: argparse.Namespace) -> Outcome:
    return shown(latency.run(rounds=chosen.rounds, seconds=chosen.seconds), latency.TARGETS)


def measure_scale(chosen: argparse.Namespace) -> Outcome:
    sizes = {"partitions": chosen.partitions, "idle": chosen.idle, "records": chosen.records}
    results = scale.run(rounds=chosen.rounds, seconds=chosen.seconds, **sizes)
    return shown(results, scale.targets(chosen.partitions, chosen.idle))


def measure_memory(chosen: argparse.Namespace) -> Outcome:
    results = memory.run(rounds=chosen.rounds, seconds=60 * chosen.minutes, per_second=chosen.rate)
    return shown(results, memory.TARGETS)


def measure_startup(chosen: argparse.Namespace) -> Outcome:
    return shown(startup.run(rounds=chosen.rounds), startup.TARGETS)


def measure_seeking(chosen: argparse.Namespace) -> Outcome:
    cases = chosen.case or tuple(seeking.CASES)
    targets = [target for target in seeking.TARGETS if target.case in {seeking.CASES[case] for case in cases}]
    return shown(seeking.run(rounds=chosen.rounds, seconds=chosen.seconds, cases=cases), targets)


def measure_processing(chosen: argparse.Namespace) -> Outcome:
    cases = chosen.case or list(processing.CASES)
    results = processing.run(rounds=chosen.rounds, cases=cases, against=chosen.against)
    return shown(results, processing.targets(["no-op"] if chosen.against else cases))


def measure_catch_up(chosen: argparse.Namespace) -> Outcome:
    results = catch_up.run(rounds=chosen.rounds, records=chosen.records)
    return shown(results, catch_up.TARGETS)


def measure_spark(chosen: argparse.Namespace) -> Outcome:
    topics, queries = chosen.case or list(spark.TOPICS), chosen.query or list(spark.QUERIES)
    results = spark.run(rounds=chosen.rounds, scale=chosen.scale, topics=topics, queries=queries, lean=chosen.lean)
    return shown(results, spark.targets(topics, queries))


def measure_async(chosen: argparse.Namespace) -> Outcome:
    cases = chosen.case or list(event_loops.TOPICS)
    results = event_loops.run(rounds=chosen.rounds, scale=chosen.scale, cases=cases, defaults=chosen.defaults)
    return shown(results, event_loops.targets(cases))


def measure_adapters(chosen: argparse.Namespace) -> Outcome:
    cases = chosen.case or list(adapters.TOPICS)
    return shown(adapters.run(rounds=chosen.rounds, scale=chosen.scale, cases=cases), adapters.targets(cases))


def measure_groups(chosen: argparse.Namespace) -> Outcome:
    size = large_groups.Size(members=chosen.members, partitions=chosen.partitions, brokers=chosen.brokers)
    protocols = chosen.protocol or large_groups.PROTOCOLS
    results = large_groups.run(size, protocols, memory=not chosen.no_memory)
    if chosen.write:
        write_result("groups", large_groups.evidence(results, size, date=today(), kwire=commit()))
    return shown(results, [])


def measure_tls(chosen: argparse.Namespace) -> Outcome:
    cases = chosen.case or list(tls.TOPICS)
    return shown(tls.run(rounds=chosen.rounds, scale=chosen.scale, cases=cases), tls.targets(cases))


def shown(results: Sequence[Figures], targets: Sequence[Target]) -> Outcome:
    """A missed target is printed and no failure: what these suites measure depends on the machine."""
    print_table(results, targets, Console(width=TABLE_WIDTH))
    return [result.to_json() for result in results], []


CLIENTS_BY_NAME = {client.name: client for client in CLIENTS}
SUITES: Mapping[str, Callable[[argparse.Namespace], Outcome]] = {
    "codec": measure_codec,
    "rebalance": measure_rebalance,
    "throughput": measure_throughput,
    "latency": measure_latency,
    "scale": measure_scale,
    "memory": measure_memory,
    "startup": measure_startup,
    "seeking": measure_seeking,
    "processing": measure_processing,
    "spark": measure_spark,
    "catch-up": measure_catch_up,
    "tls": measure_tls,
    "async": measure_async,
    "adapters": measure_adapters,
    "groups": measure_groups,
}


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="scripts/bench", description="Measures kwire against others.")
    suites = found.add_subparsers(dest="suite", required=True)
    codec = suites.add_parser("codec", help="messages to bytes and back, against kio and kafka-python")
    codec.add_argument("--rounds", type=int, default=7, help=f"turns of each participant, at least {MIN_ROUNDS} (7)")
    codec.add_argument("--seconds", type=float, default=0.3, help="length of a turn (0.3)")
    rebalance = suites.add_parser("rebalance", help="a member joins, leaves, is killed; against Java and librdkafka")
    rebalance.add_argument("--rounds", type=int, default=9, help="how often each event is timed (9: 25 minutes)")
    rebalance.add_argument("--only", default="", metavar="TEXT", help="settings with this in their title")
    rebalance.add_argument("--logs", type=Path, metavar="DIRECTORY", help="what kwire's members log; costs time")
    throughput = suites.add_parser("throughput", help="whole topics, against Java, librdkafka, aiokafka, kafka-python")
    throughput.add_argument("--case", action="append", default=[], choices=CASES, help="a topic; may be repeated (all)")
    throughput.add_argument("--rounds", type=int, default=MIN_ROUNDS, help=f"turns of each client ({MIN_ROUNDS})")
    throughput.add_argument("--scale", type=float, default=1.0, help="part of each topic that is written (1.0)")
    throughput.add_argument("--client", action="append", default=[], choices=CLIENTS_BY_NAME, help="(all)")
    throughput.add_argument("--defaults", action="store_true", help="no client is tuned")
    throughput.add_argument("--chart", type=Path, metavar="FILE", help="draw the rates there, as SVG")
    of_consumers = (*add_consumer_suites(suites), *add_topic_suites(suites))
    for suite in of_consumers:
        suite.add_argument("--rounds", type=int, default=MIN_ROUNDS, help=f"turns of each ({MIN_ROUNDS})")
    for suite in (codec, rebalance, throughput, *of_consumers, add_groups(suites)):
        suite.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there as well")
    return found


def add_consumer_suites(
    suites: argparse._SubParsersAction[argparse.ArgumentParser],
) -> tuple[argparse.ArgumentParser, ...]:
    latency = suites.add_parser("latency", help="from produce() to the application, at 1,000 records a second")
    latency.add_argument("--seconds", type=float, default=10.0, help="length of a turn (10)")
    scale = suites.add_parser("scale", help="what partitions cost that have no data")
    scale.add_argument("--partitions", type=int, default=10_000, help="assigned, ten of them with data (10000)")
    scale.add_argument("--idle", type=int, default=1_000, help="assigned without any data (1000)")
    scale.add_argument("--records", type=int, default=300_000, help="in each of the ten partitions (300000)")
    scale.add_argument("--seconds", type=float, default=10.0, help="how long idling is watched (10)")
    memory = suites.add_parser("memory", help="a consumer a hundred times slower than the producer")
    memory.add_argument("--minutes", type=float, default=5.0, help="length of a turn (5: two and a half hours)")
    memory.add_argument("--rate", type=int, default=5_000, help="records of 1,000 bytes written a second (5000)")
    startup = suites.add_parser("startup", help="import, and from there to the first record")
    moving = suites.add_parser("seeking", help="records looked up by offset; partitions paused and resumed; commits")
    moving.add_argument("--case", action="append", default=[], choices=seeking.CASES, help="(all)")
    moving.add_argument("--seconds", type=float, default=10.0, help="length of a turn (10)")
    handling = suites.add_parser("processing", help="what a Processor costs, and how much it keeps in work")
    handling.add_argument("--case", action="append", default=[], choices=processing.CASES, help="(all)")
    handling.add_argument(
        "--against", type=Path, metavar="TREE", help="no-op alone, here and in another clone, in turns"
    )
    catching_up = suites.add_parser("catch-up", help="back at a long lag: the newest record, and all of the lag")
    catching_up.add_argument("--records", type=int, default=catch_up.RECORDS, help="of the lag (5000000)")
    return latency, scale, memory, startup, moving, handling, catching_up


def add_topic_suites(
    suites: argparse._SubParsersAction[argparse.ArgumentParser],
) -> tuple[argparse.ArgumentParser, ...]:
    """Those that read the topics of `throughput`, whole."""
    on_spark = suites.add_parser("spark", help="Spark through kwire's source and through its own")
    on_spark.add_argument("--case", action="append", default=[], choices=spark.TOPICS, help="a topic (all)")
    on_spark.add_argument("--query", action="append", default=[], choices=spark.QUERIES, help="(all)")
    on_spark.add_argument("--lean", action="store_true", help="start Spark's Python processes as docs/spark.md advises")
    on_spark.add_argument("--scale", type=float, default=1.0, help="part of each topic that is written (1.0)")
    awaiting = suites.add_parser("async", help="AsyncConsumer beside Consumer, and beside peers that await")
    names = ", ".join(event_loops.TOPICS)
    awaiting.add_argument("--case", action="append", default=[], choices=CASES, help=f"({names})")
    awaiting.add_argument("--scale", type=float, default=1.0, help="what part of each topic is written (1)")
    awaiting.add_argument("--defaults", action="store_true", help="no client is tuned")
    ported = suites.add_parser("adapters", help="programs of other clients, as they are and through kwire's adapters")
    ported.add_argument("--case", action="append", default=[], choices=CASES, help=f"({', '.join(adapters.TOPICS)})")
    ported.add_argument("--scale", type=float, default=0.5, help="part of each topic that is written (0.5)")
    encrypted = suites.add_parser("tls", help="TLS against plain text, beside an idle and a busy application")
    encrypted.add_argument("--case", action="append", default=[], choices=CASES, help=f"({', '.join(tls.TOPICS)})")
    encrypted.add_argument("--scale", type=float, default=0.5, help="part of each topic that is written (0.5)")
    return on_spark, awaiting, ported, encrypted


def add_groups(suites: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    groups = suites.add_parser("groups", help="large groups on a virtual clock: how long they take, and what they ask")
    groups.add_argument("--members", type=int, default=200, help="at full size (200)")
    groups.add_argument("--partitions", type=int, default=10_000, help="of its topic (10000)")
    groups.add_argument("--brokers", type=int, default=50, help="that lead them (50)")
    groups.add_argument("--protocol", action="append", default=[], choices=large_groups.PROTOCOLS, help="(both)")
    groups.add_argument("--no-memory", action="store_true", help="leave out the memory of members: half the time")
    groups.add_argument("--write", action="store_true", help="write what came of it into docs/evidence")
    return groups


if __name__ == "__main__":
    sys.exit(main())
