"""What a check has come to, and the walk through all of them: servers, brokers, topics, the group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kwire.cli.doctor.causes import Cause, cause_of
from kwire.cli.doctor.probes import Probes
from kwire.config import ConsumerConfig, Endpoint, login_of
from kwire.errors import KafkaError, UnsupportedVersionError
from kwire.network.broker_client import BrokerClient
from kwire.network.broker_connections import ConnectionAttempt, Stage
from kwire.network.certificates import describe
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.registry import BrokerVersions

NEEDED = (
    MetadataRequest,
    FetchRequest,
    ListOffsetsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    HeartbeatRequest,
    OffsetFetchRequest,
    OffsetCommitRequest,
)
"""What a consumer asks."""


@dataclass(frozen=True, slots=True)
class Check:
    """One step and its result.

    Attributes:
        name: The name of the check, such as "TCP".
        subject: What was checked, such as a broker's address.
        said: What was found; what is wrong, if it is not `ok`.
        advice: What to do about it.
    """

    name: str
    subject: str
    ok: bool
    said: str
    advice: str = ""


def failed(name: str, subject: str, cause: Cause) -> Check:
    """A check that has failed, with the cause."""
    return Check(name, subject, False, cause.said, cause.advice)


def check_server(client: BrokerClient, server: Endpoint) -> Iterator[Check]:
    """The checks of the connection to a server, up to the step that fails."""
    attempt = ConnectionAttempt()
    try:
        versions = client.reach(server, attempt)
    except KafkaError as error:
        passed = list(Stage)[: list(Stage).index(attempt.stage)]
        yield from _passed(passed, client.config, server, attempt)
        cause = cause_of(attempt.stage, error, server, Probes(client, server))
        yield failed(attempt.stage.value, str(server), cause)
    else:
        yield from _passed((Stage.DNS, Stage.TCP, Stage.TLS), client.config, server, attempt)
        yield _check_versions(server, versions)
        yield from _passed((Stage.LOGIN,), client.config, server, attempt)


def _passed(
    stages: Sequence[Stage], config: ConsumerConfig, server: Endpoint, attempt: ConnectionAttempt
) -> Iterator[Check]:
    """The checks of the steps that have passed, without those that the settings do not need."""
    for stage in stages:
        if said := _said_of(stage, config, attempt):
            yield Check(stage.value, str(server), True, said)


def _said_of(stage: Stage, config: ConsumerConfig, attempt: ConnectionAttempt) -> str:
    protocol = config.security_protocol
    match stage:
        case Stage.DNS:
            return f"stands for {', '.join(attempt.addresses)}"
        case Stage.TCP:
            return "the port takes connections"
        case Stage.TLS if attempt.tls_version is not None:
            shown = "" if attempt.certificate is None else f", certificate: {describe(attempt.certificate)}"
            return f"{attempt.tls_version}{shown}"
        case Stage.LOGIN if protocol.is_sasl:
            return f"logged in by {config.sasl_mechanism.value}{_who(config)}"
        case _:
            return ""


def _who(config: ConsumerConfig) -> str:
    name = login_of(config).username
    return f" as {name}" if name else ""


_ABOUT_AGE = "take the port of a broker of Kafka 2.1 or newer; that of a controller takes no clients"


def _check_versions(server: Endpoint, versions: BrokerVersions) -> Check:
    for request in NEEDED:
        try:
            versions.pick(request)
        except UnsupportedVersionError as error:
            said = f"{server} is too old, or no broker for clients: {error}"
            return failed(Stage.VERSIONS.value, str(server), Cause(said, _ABOUT_AGE))
    is_new = ConsumerGroupHeartbeatRequest.api_key in versions.offered
    groups = "classic and consumer (KIP-848)" if is_new else "classic"
    fetch = versions.offered[FetchRequest.api_key]
    said = f"speaks Kafka's protocol: Fetch in versions {fetch}, group protocols: {groups}"
    return Check(Stage.VERSIONS.value, str(server), True, said)


def check_brokers(client: BrokerClient, server: Endpoint, metadata: MetadataResponse) -> Iterator[Check]:
    """Check whether each broker can be reached at its advertised address."""
    for broker in metadata.brokers:
        told = Endpoint(broker.host, broker.port)
        subject = f"{told} (id {broker.node_id})"
        attempt = ConnectionAttempt()
        try:
            client.reach(told, attempt)
        except KafkaError as error:
            found = cause_of(attempt.stage, error, told, Probes(client, told))
            where = "found at {}, where it is not" if found.is_about_address else "at {}, where this goes wrong"
            said = f"{server} answers, but says that broker {broker.node_id} is {where.format(told)}: {found.said}"
            yield failed("broker", subject, Cause(said, _advice_for_listener(told, found)))
        else:
            yield Check("broker", subject, True, "reached where it says that it is")


def _advice_for_listener(told: Endpoint, found: Cause) -> str:
    if found.is_about_address:
        return (
            "set the broker's advertised.listeners to an address that this machine reaches (in Docker: a listener for "
            f"the host of its own), or make {told.host} lead there"
        )
    return found.advice
