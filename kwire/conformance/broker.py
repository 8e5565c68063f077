"""The broker under test, with what every check needs: connections, versions, topics, groups, and a clean-up.

One broker is tested: the one at the bootstrap address if the cluster's metadata names it, else the first one named. It
leads all topics of the suite; coordinators may be other brokers. Checks run on several threads, so shared state is
locked.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID, uuid4
from weakref import WeakSet

from kwire.clock import Deadline
from kwire.conformance.client import CLIENT_ID, BrokerAddress, ClientConnection, RawConnection
from kwire.conformance.expectations import NonconformanceError, expect_ok, only
from kwire.conformance.offer import BrokerOffer
from kwire.errors import DisconnectError, KafkaError, KafkaTimeoutError, ProtocolError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.registry import BrokerVersions
from kwire.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kwire.conformance.access import Access
    from kwire.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
    from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound="Message")
S = TypeVar("S")
C = TypeVar("C", bound=RawConnection)

GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator (KIP-98)."""

READY_TIMEOUT_S = 30.0
"""A cluster that has never seen a group makes the offsets topic first, which takes seconds on a slow disk."""

RETRY_S = 0.02

FEATURES_FROM = 3
"""The first version of ApiVersions that names the cluster's features (KIP-584)."""

EMPTY_PARTITIONS = 3
LOOK_TIMEOUT_S = 2.0

NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors after which the request is sent again: only the answer after them counts."""


@dataclass(frozen=True, slots=True)
class SuiteTopic:
    """A topic that the suite has created. Its id is all zeros on brokers without topic ids (before Kafka 2.8)."""

    name: str
    id: UUID


@dataclass(frozen=True, slots=True)
class Coordinated:
    """The name of a group or transaction, and the address of its coordinator."""

    name: str
    address: BrokerAddress


class JudgedBroker:
    """The broker under test.

    Args:
        address: The bootstrap address.
        timeout_s: The timeout of each answer.
        access: TLS and the login.

    Raises:
        KafkaError: The broker cannot be reached, or does not answer ApiVersions and Metadata.
        NonconformanceError: It answers one of them, but not as Kafka does.
    """

    def __init__(self, address: BrokerAddress, timeout_s: float, access: Access | None = None) -> None:
        self._access = access
        self.prefix = f"kwire-conformance-{uuid4().hex[:8]}"
        self.timeout_s = timeout_s
        self._lock = Lock()
        self._names = 0
        self._empty: SuiteTopic | Exception | None = None
        self._emptying = Lock()
        self._connections: WeakSet[RawConnection] = WeakSet()
        self._is_cut = False
        self._silent: set[BrokerAddress] = set()
        self.topics: set[str] = set()
        self.groups: list[Coordinated] = []
        self.address = address
        self.offer = self._ask_offer()
        self._choose_home(address)

    def _ask_offer(self) -> BrokerOffer:
        with self.connect() as connection:
            answer = connection.ask(ApiVersionsRequest(), 0)  # every broker has version 0
            expect_ok(answer.error_code, "ApiVersions")
            versions = BrokerVersions.from_response(answer)
            if versions.supports(ApiVersionsRequest, FEATURES_FROM):
                software = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=__version__)
                answer = connection.ask(software, FEATURES_FROM)
        return BrokerOffer(versions, {feature.name: feature.max_version_level for feature in answer.finalized_features})

    def _choose_home(self, bootstrap: BrokerAddress) -> None:
        try:
            metadata = self.metadata()
        except ProtocolError as error:  # it is a Kafka, and no web server: it has answered ApiVersions
            raise NonconformanceError(f"Metadata cannot be read: {error}") from error
        if not metadata.brokers:
            raise NonconformanceError("Metadata names no broker at all")
        # With one broker the bootstrap address is as good as the advertised one, and may be a proxy on purpose.
        is_alone = len(metadata.brokers) == 1
        at_bootstrap = [node for node in metadata.brokers if (node.host, node.port) == bootstrap]
        home = (at_bootstrap or metadata.brokers)[0]
        self.node_id = home.node_id
        if not (is_alone or at_bootstrap):
            self.address = BrokerAddress(home.host, home.port)
            self.offer = self._ask_offer()

    @property
    def versions(self) -> BrokerVersions:
        """The APIs that the broker offers."""
        return self.offer.versions

    # --- asking ----------------------------------------------------------------------------------------------

    def connect(self, address: BrokerAddress | None = None, *, timeout_s: float | None = None) -> ClientConnection:
        """A new connection, to the broker itself or to a coordinator."""
        return self._kept(ClientConnection(address or self.address, timeout_s or self.timeout_s, self._access))

    def connect_raw(self) -> RawConnection:
        """A new connection to the broker, for bytes that need not be requests."""
        return self._kept(RawConnection(self.address, self.timeout_s, self._access))

    def _kept(self, connection: C) -> C:
        with self._lock:
            self._connections.add(connection)
            is_cut = self._is_cut
        if is_cut:
            connection.close()
            raise DisconnectError("the run was ended early")
        return connection

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """A context in which checks lose their connections, and get no new ones, so that none of them waits."""
        with self._lock:
            self._is_cut = True
            connections = list(self._connections)
        for connection in connections:
            connection.cut()
        try:
            yield
        finally:
            self._is_cut = False

    def highest(self, request: type[Request[Message]], max_version: int | None = None) -> int:
        """The highest version that the broker and kwire share, up to `max_version`.

        Raises:
            UnsupportedVersionError: There is none.
        """
        return self.versions.pick(request, max_version=max_version)

    def ask(self, request: Request[R], version: int | None = None, *, address: BrokerAddress | None = None) -> R:
        """Send one request on a connection of its own, by default in the highest version."""
        with self.connect(address) as connection:
            return connection.ask(request, self.highest(type(request)) if version is None else version)

    def metadata(self, *topics: str) -> MetadataResponse:
        """Metadata of the cluster and of these topics, without creating them."""
        return self.ask(_about(*topics))

    # --- creating --------------------------------------------------------------------------------------------

    def new_name(self) -> str:
        """A unique name."""
        with self._lock:
            self._names += 1
            return f"{self.prefix}-{self._names}"

    def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> SuiteTopic:
        """Create a topic, all of whose partitions this broker leads."""
        name = self.new_name()
        self.topics.add(name)
        wanted = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=i, broker_ids=[self.node_id]) for i in range(partitions)
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
        )
        answer = self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=int(self.timeout_s * 1000)))
        expect_ok(only(answer.topics, "topic in the answer").error_code, "CreateTopics")
        found = self.wait_for_leaders(name)
        # Metadata names a leader before that broker itself has taken over.
        wait_for(lambda: self._leads(found), f"{self.address} to lead {name}")
        return SuiteTopic(name, found.topic_id)

    def topic_that_all_know(self, partitions: int = 1) -> SuiteTopic:
        """As `topic`, and wait until all brokers know it: a transaction's coordinator may be any of them, and refuses
        topics that it does not know."""
        topic = self.topic(partitions)
        for node in self.metadata().brokers:
            if node.node_id != self.node_id:
                address = BrokerAddress(node.host, node.port)
                wait_for(partial(self._is_known_at, address, topic.name), f"{address} to know {topic.name}")
        return topic

    def _is_known_at(self, address: BrokerAddress, name: str) -> bool:
        """Whether another broker knows the topic; True for a broker that does not answer."""
        if address in self._silent:
            return True
        try:
            with self.connect(address, timeout_s=min(self.timeout_s, LOOK_TIMEOUT_S)) as connection:
                answer = connection.ask(_about(name), self.highest(MetadataRequest))
        except KafkaError:
            self._silent.add(address)
            return True
        return only(answer.topics, "topic in the answer").error_code == ErrorCode.NONE

    def empty_topic(self) -> SuiteTopic:
        """A topic with `EMPTY_PARTITIONS` partitions without records. All checks share it: creating topics takes
        time. If that fails, so does every check that needs it."""
        with self._emptying:
            if self._empty is None:
                try:
                    self._empty = self.topic_that_all_know(EMPTY_PARTITIONS)
                except (KafkaError, NonconformanceError) as error:
                    self._empty = NonconformanceError(f"there is no empty topic to check with: {error}")
        if isinstance(self._empty, Exception):
            raise self._empty
        return self._empty

    def wait_for_leaders(self, name: str) -> MetadataResponseTopic:
        """The metadata of a topic, once all of its partitions have leaders: it exists before they are elected."""

        def look() -> MetadataResponseTopic | None:
            found = only(self.metadata(name).topics, "topic in the answer")
            led = found.partitions and all(partition.leader_id >= 0 for partition in found.partitions)
            return found if led and found.error_code == ErrorCode.NONE else None

        return wait_for(look, f"a leader of {name}")

    def _leads(self, found: MetadataResponseTopic) -> bool:
        """Whether this broker has become the leader of every partition."""
        latest = -1
        partitions = [
            ListOffsetsPartition(partition_index=partition.partition_index, timestamp=latest)
            for partition in found.partitions
        ]
        topic = ListOffsetsTopic(name=found.name or "", partitions=partitions)
        answer = self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]))
        codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
        return codes == {ErrorCode.NONE}

    def group(self) -> Coordinated:
        """A new group name, whose coordinator is found and ready."""
        group = self._coordinated(GROUP)
        self.groups.append(group)
        version = self.highest(OffsetFetchRequest)
        request = (
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group.name)])
            if version >= 8
            else OffsetFetchRequest(group_id=group.name)
        )

        def is_ready() -> bool:
            answer = self.ask(request, version, address=group.address)
            return not NOT_READY & {answer.error_code, *(found.error_code for found in answer.groups)}

        wait_for(is_ready, f"the coordinator of {group.name}")
        return group

    def transaction(self) -> Coordinated:
        """A new transactional id, whose coordinator is found. The broker forgets it by itself, days later."""
        return self._coordinated(TRANSACTION)

    def _coordinated(self, key_type: int) -> Coordinated:
        name = self.new_name()

        def look() -> Coordinated | None:
            version = self.highest(FindCoordinatorRequest, 3)
            answer = self.ask(FindCoordinatorRequest(key=name, key_type=key_type), version)
            if answer.error_code in NOT_READY:
                return None
            expect_ok(answer.error_code, "FindCoordinator")
            is_home = answer.node_id == self.node_id
            return Coordinated(name, self.address if is_home else BrokerAddress(answer.host, answer.port))

        return wait_for(look, f"a coordinator for {name}")


def _about(*topics: str) -> MetadataRequest:
    wanted = [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def wait_for(look: Callable[[], S | None], what: str, timeout_s: float = READY_TIMEOUT_S) -> S:
    """Call `look` until it returns a result.

    Raises:
        KafkaTimeoutError: The timeout is over first.
    """
    deadline = Deadline.after(timeout_s * 1000)
    while not (found := look()):
        if deadline.expired:
            raise KafkaTimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(RETRY_S)
    return found
