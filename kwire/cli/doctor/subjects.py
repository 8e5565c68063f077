"""Checks of the topics and the group of a consumer: whether they exist, and whether this client may use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from kwire.cli.admin.cluster import ask_until_final
from kwire.cli.doctor.causes import Cause
from kwire.cli.doctor.checks import Check, failed
from kwire.cli.tables import counted
from kwire.config import Endpoint, login_of
from kwire.errors import KafkaError
from kwire.network.broker_client import BrokerClient
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

LATEST = -1


def check_topic(client: BrokerClient, name: str, brokers: Mapping[int, Endpoint]) -> Iterator[Check]:
    """Check whether a topic exists, has leaders and may be read."""
    yield from _examined("topic", name, _topic_checks(client, name, brokers))


def check_group(client: BrokerClient, group: str) -> Iterator[Check]:
    """Check whether the group has a coordinator, and whether this client may be a member."""
    yield from _examined("group", group, _group_checks(client, group))


def _examined(kind: str, name: str, checks: Iterator[Check]) -> Iterator[Check]:
    """The checks; a broker that does not answer is a failed one, and those before it are told."""
    try:
        yield from checks
    except KafkaError as error:
        cause = Cause(f"{kind} {name} cannot be examined: {error}", "look into the log of the broker that leads it")
        yield failed(kind, name, cause)


def _topic_checks(client: BrokerClient, name: str, brokers: Mapping[int, Endpoint]) -> Iterator[Check]:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    topic = client.ask(wanted).topics[0]
    code = ErrorCode.of(topic.error_code)
    if code is ErrorCode.NONE:
        yield _check_leaders(client, name, topic, brokers)
    elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        yield failed("topic", name, _not_permitted(client, "topic", name))
    elif code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        yield failed("topic", name, _unknown_topic(client, name))
    else:
        said = f"topic {name} cannot be used: {code.name}: {code.meaning}"
        yield failed("topic", name, Cause(said, "look at the topic at the brokers: kafka-topics --describe"))


def _check_leaders(
    client: BrokerClient, name: str, topic: MetadataResponseTopic, brokers: Mapping[int, Endpoint]
) -> Check:
    leaderless = sorted(each.partition_index for each in topic.partitions if each.leader_id not in brokers)
    if leaderless:
        said = f"topic {name} has partitions without a leader: {', '.join(map(str, leaderless))}"
        return failed("topic", name, Cause(said, "start the brokers that hold them (kwire topics describe names them)"))
    if not topic.partitions:
        said = f"topic {name} has no partitions yet"
        return failed("topic", name, Cause(said, "try again; else look at it at the brokers: kafka-topics --describe"))
    first = topic.partitions[0]
    code = _try_to_read(client, brokers[first.leader_id], name, first.partition_index)
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return failed("topic", name, _not_permitted(client, "topic", name))
    if code is not ErrorCode.NONE:
        return failed("topic", name, Cause(f"topic {name} cannot be read: {code.name}: {code.meaning}", "try again"))
    return Check(
        "topic",
        name,
        True,
        f"exists with {counted(len(topic.partitions), 'partition')}, all led, and this client may read them",
    )


def _try_to_read(client: BrokerClient, leader: Endpoint, name: str, partition: int) -> ErrorCode:
    """Fetch at the end of the log, which returns no records."""
    where = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    ends = client.ask(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[where])]), leader
    )
    end = ends.topics[0].partitions[0]
    if end.error_code:
        return ErrorCode.of(end.error_code)
    wanted = FetchPartition(partition=partition, fetch_offset=end.offset, partition_max_bytes=1)
    request = FetchRequest(max_bytes=1, topics=[FetchTopic(topic=name, partitions=[wanted])])
    answer = client.ask(request, leader, max_version=FetchRequest.last_version_with_names)
    return ErrorCode.of(answer.error_code or answer.responses[0].partitions[0].error_code)


def _unknown_topic(client: BrokerClient, name: str) -> Cause:
    visible = [topic.name for topic in client.ask(MetadataRequest(topics=None)).topics if topic.name]
    near = get_close_matches(name, visible, n=1)
    advice = "create it, or correct the name; 'kwire topics list' shows those that this client may see"
    return Cause(f"there is no topic {name}", f"did you mean {near[0]}? Else {advice}" if near else advice)


def _group_checks(client: BrokerClient, group: str) -> Iterator[Check]:
    # A cluster without any group yet creates the topic of commits first.
    answer = ask_until_final(
        lambda: client.ask(
            FindCoordinatorRequest(key=group), max_version=FindCoordinatorRequest.last_version_with_one_key
        ),
        lambda answer: [answer.error_code],
    )
    code = ErrorCode.of(answer.error_code)
    if code is ErrorCode.NONE:
        coordinator = Endpoint(answer.host, answer.port)
        # A heartbeat without a member: without permission the answer says so, else that there is no such member.
        nobody = HeartbeatRequest(group_id=group, generation_id=-1)
        beat = ask_until_final(lambda: client.ask(nobody, coordinator), lambda answer: [answer.error_code])
        code = ErrorCode.of(beat.error_code)
        if code is not ErrorCode.GROUP_AUTHORIZATION_FAILED:
            yield Check("group", group, True, f"coordinated by {coordinator}, and this client may be a member")
            return
    if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        yield failed("group", group, _not_permitted(client, "group", group))
        return
    said = f"group {group} has no coordinator: {code.name}: {code.meaning}"
    yield failed("group", group, Cause(said, "wait for the brokers to start; __consumer_offsets has to have leaders"))


def _not_permitted(client: BrokerClient, kind: str, name: str) -> Cause:
    config = client.config
    user = login_of(config).username if config.security_protocol.is_sasl else ""
    principal = f"User:{user}" if user else "User:ANONYMOUS" if not config.security_protocol.is_tls else "User:CN=..."
    return Cause(
        f"{user or 'this client'} is not permitted to read {kind} {name}",
        f"have it permitted: kafka-acls --bootstrap-server ... --add --allow-principal {principal} --operation Read "
        f"--{kind} {name}",
    )
