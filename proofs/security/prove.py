"""`scripts/prove security`: a real Kafka with a listener for each security protocol, and clients that log in there.

* `ways`: each listener by each mechanism, in both kinds of groups, by kwire, confluent-kafka and Java.
* `refusals`: what is wrong, which error it is, and how soon it comes.
* `renewals`: sessions of two seconds, renewed for minutes while a group reads and its members change.
* `certificates`: the clients' certificate is replaced while three members read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from kwire.testing.kafka import KafkaCluster, Security
from proofs.security.clients import USERS
from proofs.security.refusals import refusals
from proofs.security.renewals import certificates, renewals
from proofs.security.ways import ways

SESSION_MS = 2_000
PARTS: dict[str, Callable[[KafkaCluster, float], Sequence[str]]] = {
    "ways": ways,
    "refusals": refusals,
    "renewals": renewals,
    "certificates": certificates,
}


def security(
    part: Annotated[
        list[str] | None, typer.Option(help=f"Only this one; of {', '.join(PARTS)}. May be repeated.")
    ] = None,
    minutes: Annotated[float, typer.Option(help="How long logins are renewed, for each mechanism.")] = 10.0,
) -> Sequence[str]:
    """TLS and every login on a real Kafka, beside confluent-kafka and Java; what is refused, and what is renewed."""
    broken: list[str] = []
    settings = {"connections.max.reauth.ms": str(SESSION_MS), "group.initial.rebalance.delay.ms": "0"}
    with KafkaCluster(settings=settings, security=Security(users=USERS, client_auth="requested")) as kafka:
        for name in part or PARTS:
            print(f"\n## {name}\n", flush=True)
            broken.extend(PARTS[name](kafka, minutes * 60))
    return broken
