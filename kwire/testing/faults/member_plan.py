"""The plan of a member: its client and settings, and the command that starts it, with Kafka's flags and a settings
file.

Made from a schedule by the injectors, which start members; `member_process.py` carries it out.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.kind import Need
from kwire.testing.faults.schedule import OWN_CLIENTS, Committing, GroupProtocol, Schedule
from kwire.testing.kafka.jars import ClusterError
from kwire.testing.kafka.tools import verifiable_consumer_command

# As by default. Each poll is committed before the next: with few records in each, a machine that is busy with others
# would not keep up with what is sent.
MAX_POLL_RECORDS = 500
# A member that is slow with each record still has to poll within its interval.
MAX_POLL_RECORDS_IF_SLOW = 50
# Who catches up takes many polls for it, so that there is time to strike in between; and what piles up while a dead
# member's session ends is a lag, what piles up in a rebalance is none.
MAX_POLL_RECORDS_OF_A_LAG = 50
CATCHES_UP_FROM = 100
# How long others than kwire may take to close: their own limit, which they do not let anybody set, and a last commit.
CLOSES_WITHIN_MS = 45_000.0

# The names are those of the wire, which kwire and librdkafka take; Java's client wants its classes.
JAVA_STRATEGIES: Mapping[str, str] = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
CONFLUENT_PROGRAM = Path(__file__).with_name("confluent_member.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """The plan of one member process.

    Args:
        number: which member it is or takes the place of; negative for one that is in the group on somebody else's
            ticket.
        client: "kwire", "confluent", "java", or a command that takes Kafka's flags. The command has to become the
            client itself (`exec`, in a shell script): signals go to it alone.
        assignor: None for the client's or the broker's default.
        clock_may_jump: whether its wall clock may be shifted, which makes every reading of the time slower.
        may_be_slow: whether it may be told to be slow with each record.
        catches_up: whether it reads a lag beside the newest records (`enable_parallel_rebalance`).
        comes_back: whether its process ends after errors that other clients survive; it is then started again, as by a
            supervisor.
    """

    number: int
    client: str
    protocol: GroupProtocol
    topics: tuple[str, ...]
    assignor: str | None = None
    instance_id: str | None = None
    committing: Committing = "sync"
    read_committed: bool = False
    clock_may_jump: bool = False
    may_be_slow: bool = False
    catches_up: bool = False
    comes_back: bool = False
    settings: RunSettings

    @classmethod
    def of(cls, number: int, schedule: Schedule) -> MemberPlan:
        """The plan for the member with this number in a schedule."""
        members = schedule.members_of(number)
        return cls(
            number=number,
            client=members.client,
            protocol=members.protocol,
            topics=tuple(topic.name for topic in schedule.topics),
            assignor=members.assignor,
            instance_id=f"member{number}" if members.static else None,
            committing=members.committing,
            read_committed=members.read_committed,
            clock_may_jump=any(Need.LIBFAKETIME in step.kind.needs for step in schedule.steps),
            may_be_slow=any(Need.OWN_RUNNER in step.kind.needs for step in schedule.steps),
            catches_up=members.catches_up,
            comes_back=members.client == "java",  # its VerifiableConsumer closes when a poll raises anything
            settings=schedule.settings,
        )

    @property
    def takes_orders(self) -> bool:
        return self.client in OWN_CLIENTS

    @property
    def closes_within_ms(self) -> float:
        return float(self.settings.close_timeout_ms) if self.client == "kwire" else CLOSES_WITHIN_MS

    @property
    def max_poll_records(self) -> int:
        usual = MAX_POLL_RECORDS_OF_A_LAG if self.catches_up else MAX_POLL_RECORDS
        return MAX_POLL_RECORDS_IF_SLOW if self.may_be_slow else usual

    def file_settings(self, client_id: str) -> dict[str, str]:
        """The settings in the member's file, under its client's names."""
        return _FILES.get(self.client, _java_settings)(self, client_id)

    def command(self, *, bootstrap_servers: str, group_id: str, config: Path, orders: Path) -> list[str]:
        """The program and its flags.

        Raises:
            ClusterError: the client does not support the plan.
        """
        if self.client == "java" and len(self.topics) > 1:
            raise ClusterError(f"Java's VerifiableConsumer reads one topic, not {', '.join(self.topics)}")
        flags = ["--bootstrap-server", bootstrap_servers, "--topic", ",".join(self.topics), "--group-id", group_id]
        flags += ["--command-config", str(config), "--reset-policy", "earliest", "--verbose"]
        flags += self._protocol_flags()
        flags += ["--group-instance-id", self.instance_id] if self.instance_id else []
        flags += ["--enable-autocommit"] if self.committing == "auto" else []
        flags += ["--orders", str(orders)] if self.takes_orders else []
        match self.client:
            case "kwire":
                return [sys.executable, "-m", "kwire.verifiable_consumer", *flags]
            case "confluent":  # -P: nothing beside the program is to be imported by chance
                return [sys.executable, "-P", str(CONFLUENT_PROGRAM), *flags]
            case "java":
                return verifiable_consumer_command(*flags)
            case _:
                return [*shlex.split(self.client), *flags]

    def _protocol_flags(self) -> list[str]:
        if self.protocol == "consumer":
            assignor = ["--group-remote-assignor", self.assignor] if self.assignor else []
            return ["--group-protocol", "consumer", *assignor]
        flags = ["--group-protocol", "classic", "--session-timeout", str(self.settings.session_timeout_ms)]
        if self.assignor is not None:
            takes_wire_names = self.takes_orders
            flags += ["--assignment-strategy", self.assignor if takes_wire_names else _java_strategy(self.assignor)]
        return flags


def _java_strategy(assignor: str) -> str:
    return JAVA_STRATEGIES.get(assignor, assignor)


def _shared_settings(plan: MemberPlan, client_id: str) -> dict[str, str]:
    """The settings that have the same name in all clients."""
    settings = plan.settings
    # In groups of the consumer protocol the broker decides about heartbeats.
    beat = {"heartbeat.interval.ms": settings.heartbeat_interval_ms} if plan.protocol == "classic" else {}
    values = {
        "client.id": client_id,
        **beat,
        # librdkafka wants at least the session timeout; a member must not be expelled for another reason than planned.
        "max.poll.interval.ms": max(settings.max_poll_interval_ms, settings.session_timeout_ms),
        "max.poll.records": plan.max_poll_records,
        "auto.commit.interval.ms": settings.auto_commit_interval_ms,
        "retry.backoff.max.ms": settings.retry_backoff_max_ms,
        "reconnect.backoff.max.ms": settings.reconnect_backoff_max_ms,
        "socket.connection.setup.timeout.ms": settings.socket_connection_setup_timeout_ms,
        # A deleted topic has to stay away until somebody recreates it.
        "allow.auto.create.topics": "false",
        # Said in full: the defaults differ.
        "isolation.level": "read_committed" if plan.read_committed else "read_uncommitted",
        "check.crcs": "true",
    }
    return {name: str(value) for name, value in values.items()}


def _java_settings(plan: MemberPlan, client_id: str) -> dict[str, str]:
    settings = plan.settings
    return {
        **_shared_settings(plan, client_id),
        "fetch.max.wait.ms": str(settings.fetch_max_wait_ms),
        "metadata.max.age.ms": str(settings.metadata_max_age_ms),
        "request.timeout.ms": str(settings.request_timeout_ms),
        # Below the poll interval, as by default: who waits longer than that for a commit that cannot be, of a topic
        # that was deleted, is taken for dead.
        "default.api.timeout.ms": str(settings.request_timeout_ms),
    }


def _kwire_settings(plan: MemberPlan, client_id: str) -> dict[str, str]:
    of_a_lag = {
        "enable.parallel.rebalance": "true",
        "parallel.rebalance.min.lag.records": str(CATCHES_UP_FROM),
    }
    return {
        **_java_settings(plan, client_id),
        "close.timeout.ms": str(plan.settings.close_timeout_ms),
        **(of_a_lag if plan.catches_up else {}),
    }


def _confluent_settings(plan: MemberPlan, client_id: str) -> dict[str, str]:
    settings = plan.settings
    return {
        **_shared_settings(plan, client_id),
        "fetch.wait.max.ms": str(settings.fetch_max_wait_ms),
        "topic.metadata.refresh.interval.ms": str(settings.metadata_max_age_ms),
        "socket.timeout.ms": str(settings.request_timeout_ms),
    }


_FILES = {"kwire": _kwire_settings, "confluent": _confluent_settings}
