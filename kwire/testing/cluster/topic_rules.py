"""Rules for new topics: their size and the places of their replicas, with Kafka's error codes and messages.

Pure: `check_new_topic` returns what would be created. Used by the handlers that create topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.config_checks import config_problem
from kwire.testing.cluster.topic_names import TopicRefusedError, topic_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
    from kwire.testing.cluster.state import ClusterState

DEFAULT = -1


def check_new_topic(cluster: ClusterState, wanted: CreatableTopic) -> tuple[list[list[int]], dict[str, str]]:
    """The replicas and the configuration of a topic that is to be created.

    Raises:
        TopicRefusedError: It cannot be created.
    """
    problem = topic_problem(cluster.topics, wanted.name)
    if problem is not None:
        raise problem
    config = _checked_config(wanted.configs)
    if wanted.assignments:
        return _manual(cluster, wanted), config
    return _automatic(cluster, wanted), config


def _checked_config(configs: Sequence[CreatableTopicConfig]) -> dict[str, str]:
    checked: dict[str, str] = {}
    for config in configs:
        if config.value is None:
            message = f"Null value not supported for topic configs: {config.name}"
            raise TopicRefusedError(ErrorCode.INVALID_CONFIG, message)
        problem = config_problem(config.name, config.value)
        if problem is not None:
            raise TopicRefusedError(ErrorCode.INVALID_CONFIG, problem)
        checked[config.name] = config.value
    return checked


def _automatic(cluster: ClusterState, wanted: CreatableTopic) -> list[list[int]]:
    """KIP-464: -1 is the broker's default."""
    replication, partitions = wanted.replication_factor, wanted.num_partitions
    if replication < DEFAULT or replication == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise TopicRefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if partitions < DEFAULT or partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise TopicRefusedError(ErrorCode.INVALID_PARTITIONS, message)
    count = cluster.settings.num_partitions if partitions == DEFAULT else partitions
    return placements(cluster, 0, count, replication)


def placements(cluster: ClusterState, first: int, count: int, replication: int = DEFAULT) -> list[list[int]]:
    """The replicas of new partitions, from number `first` on.

    Raises:
        TopicRefusedError: There are not enough brokers.
    """
    replicas = cluster.settings.default_replication_factor if replication == DEFAULT else replication
    if replicas > len(cluster.brokers):
        raise TopicRefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of {replicas} "
            f"cannot be reached because only {len(cluster.brokers)} broker(s) are registered or some brokers have all "
            "their log directories cordoned.",
        )
    return cluster.placements(first, count, replicas)


def _manual(cluster: ClusterState, wanted: CreatableTopic) -> list[list[int]]:
    for given, what in ((wanted.replication_factor, "replication factor"), (wanted.num_partitions, "numPartitions")):
        if given != DEFAULT:
            message = f"A manual partition assignment was specified, but {what} was not set to -1."
            raise TopicRefusedError(ErrorCode.INVALID_REQUEST, message)
    chosen: dict[int, list[int]] = {}
    for assignment in wanted.assignments:
        index = assignment.partition_index
        if index in chosen:
            message = f"Found multiple manual partition assignments for partition {index}"
            raise TopicRefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        check_replicas(cluster, index, assignment.broker_ids)
        chosen[index] = assignment.broker_ids
    if sorted(chosen) != list(range(len(chosen))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise TopicRefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [chosen[index] for index in range(len(chosen))]


def check_replicas(cluster: ClusterState, index: int, broker_ids: Sequence[int]) -> None:
    """Raises: TopicRefusedError, if these brokers cannot be the replicas of a partition."""
    prefix = "The manual partition assignment includes"
    if not broker_ids:
        raise TopicRefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} an empty replica list.")
    for position, node_id in enumerate(broker_ids):
        if node_id not in cluster.brokers:
            message = f"{prefix} broker {node_id}, but no such broker is registered."
            raise TopicRefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        if node_id in broker_ids[:position]:
            message = f"{prefix} the broker {node_id} more than once."
            raise TopicRefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if not any(cluster.brokers[node_id].is_active for node_id in broker_ids):
        message = (
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
        raise TopicRefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
