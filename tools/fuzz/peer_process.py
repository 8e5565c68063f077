"""The hostile peer: an in-process cluster in a process of its own, so that its memory is not the consumer's.

The fuzzer talks to it through a pipe: an order is a method's name and its arguments, and is answered by what that
returns. Everything but what is armed is answered as Kafka does.
"""

from __future__ import annotations

import multiprocessing
import ssl
from random import Random
from typing import TYPE_CHECKING, cast

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.testing.cluster.cluster import Cluster
from tools.fuzz.misbehaviours import KINDS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.control import Rule

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.session.timeout.ms": 60_000,
    "auto.create.topics.enable": False,
}


class Peer:
    """What the fuzzer may order."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rule: Rule | None = None

    def where(self) -> str:
        return self._cluster.bootstrap_servers

    def begin(self, topic: str) -> None:
        """A topic of one record."""
        self._cluster.create_topic(topic, 1, 1)
        self._cluster.produce(topic, b"first")

    def arm(self, kind: str, api: type[Request[Message]], times: int | None, seed: str) -> None:
        self._rule = KINDS[kind].arm(self._cluster.control, api, times, Random(seed))

    def calm(self, topic: str, has_lied: bool) -> int:
        """Behave well from now on, and write the last record; how often the peer has misbehaved.

        A group that has been lied to about who owns what believes it, until there is something else to tell: that there
        are more partitions, and, where the leader thinks that another member leads, that the group has changed.
        """
        fired = 0 if self._rule is None else self._rule.fired
        self._rule = None
        self._cluster.control.clear()
        if has_lied:
            self._cluster.grow_topic(topic, 2)
            self._cluster.control.on(HeartbeatRequest, times=1).edit(_say_that_the_group_rebalances)
        self._cluster.produce(topic, b"last")
        return fired

    def end(self, topic: str) -> None:
        self._cluster.control.clear()
        self._cluster.cut_connections()
        self._cluster.delete_topic(topic)

    def bugs(self) -> list[str]:
        """What went wrong in the cluster itself."""
        return [repr(error) for error in self._cluster.failures]


def _say_that_the_group_rebalances(answer: Message) -> None:
    assert isinstance(answer, HeartbeatResponse)
    answer.error_code = ErrorCode.REBALANCE_IN_PROGRESS.value


class PeerProcess:
    """The fuzzer's end. Use as a context manager.

    Args:
        certificate: A file with the server's key and certificate, to speak TLS.
    """

    def __init__(self, certificate: str | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(theirs, certificate), daemon=True)

    def __enter__(self) -> PeerProcess:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()

    def order(self, what: str, *arguments: object) -> object:
        self._pipe.send((what, arguments))
        if not self._pipe.poll(30):
            raise RuntimeError(f"the peer does not carry out {what!r}")
        return self._pipe.recv()


def _run(pipe: Connection, certificate: str | None) -> None:
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    with Cluster(2, settings=SETTINGS, tls=context) as cluster:
        peer = Peer(cluster)
        while (order := cast("tuple[str, tuple[object, ...]] | None", pipe.recv())) is not None:
            what, arguments = order
            pipe.send(getattr(peer, what)(*arguments))
