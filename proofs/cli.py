"""`scripts/prove PROOF`: tries hard to break a promise of kwire against a real Kafka, and says what it saw.

A proof is a function: its parameters are the options of its sub-command (as typer reads them), it prints its figures,
and it answers the promises that were broken, each in one line. Register it here, at the end of `PROOFS`.

Exit codes: 0 every promise held; 1 one was broken, or it could not be tried; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import typer

from kwire.testing.kafka import ClusterError
from proofs.async_revocation.prove import async_revocation
from proofs.brokers.prove import brokers
from proofs.dashboard.prove import dashboard
from proofs.event_loops.prove import event_loops
from proofs.handlers import handlers
from proofs.independent_checker.prove import independent_checker
from proofs.kafkatest.prove import kafkatest
from proofs.losses.prove import losses
from proofs.metrics.prove import metrics
from proofs.metrics_cost import metrics_cost
from proofs.peers_tests.prove import peers_tests
from proofs.processor.prove import processor
from proofs.rebalances import rebalances
from proofs.schedules import mixed_groups, parallel_rebalance, rolling_restart
from proofs.security.prove import security
from proofs.slow_handler import slow_handler
from proofs.spark.audit import spark_audit
from proofs.spark.fresh_first import spark_fresh_first
from proofs.spark.kills import spark_kills
from proofs.spark.outages import spark_outages
from proofs.spark_answers.prove import spark_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

P = ParamSpec("P")

PROOFS: dict[str, Callable[..., Sequence[str]]] = {
    "rebalances": rebalances,
    "handlers": handlers,
    "brokers": brokers,
    "losses": losses,
    "metrics": metrics,
    "metrics-cost": metrics_cost,
    "dashboard": dashboard,
    "rolling-restart": rolling_restart,
    "mixed-groups": mixed_groups,
    "processor": processor,
    "async-revocation": async_revocation,
    "parallel-rebalance": parallel_rebalance,
    "slow-handler": slow_handler,
    "event-loops": event_loops,
    "security": security,
    "peers-tests": peers_tests,
    "independent-checker": independent_checker,
    "spark-answers": spark_answers,
    "spark-audit": spark_audit,
    "spark-kills": spark_kills,
    "spark-outages": spark_outages,
    "spark-fresh-first": spark_fresh_first,
    "kafkatest": kafkatest,
}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def prove() -> None:
    """Tries hard to break a promise of kwire against a real Kafka."""


def verdict(proof: Callable[P, Sequence[str]]) -> Callable[P, None]:
    """The proof as a command: what is broken goes to the end of the output and into the exit code."""

    @wraps(proof)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            broken = proof(*args, **kwargs)
        except ClusterError as error:
            print(f"scripts/prove: {error}", file=sys.stderr)
            raise typer.Exit(1) from error
        for line in broken:
            print(f"BROKEN {line}")
        print(f"{len(broken)} promises broken" if broken else "every promise held")
        raise typer.Exit(1 if broken else 0)

    return command


for name, proof in PROOFS.items():
    app.command(name)(verdict(proof))

if __name__ == "__main__":
    app(prog_name="scripts/prove")
