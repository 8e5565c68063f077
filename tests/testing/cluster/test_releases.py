"""Older releases: fewer APIs and versions, which ApiVersions tells and connections enforce."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.errors import InvalidArgumentError
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.testing.cluster.handlers import offered
from kwire.testing.cluster.releases import LATEST, RELEASES, release_named
from kwire.testing.cluster.state import ClusterState
from kwire.testing.kafka.jars import KAFKA_VERSION

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

HELLO = ApiVersionsRequest(client_software_name="kwire", client_software_version="1")


def test_no_release_offers_less_than_the_one_before() -> None:
    releases = list(RELEASES.values())
    for older, newer in pairwise(releases):
        for api_key, versions in offered(older).items():
            assert offered(newer)[api_key].max_version >= versions.max_version, (newer.name, api_key)


def test_a_release_is_found_by_its_name_with_or_without_patch() -> None:
    assert release_named("3.9") is release_named("3.9.1")
    with pytest.raises(InvalidArgumentError, match=r"cannot be Kafka '1\.1'"):
        release_named("1.1")


def test_what_one_gets_is_the_release_that_real_brokers_of_tests_are() -> None:
    assert LATEST is release_named(KAFKA_VERSION)
    assert list(RELEASES.values())[-1] is LATEST


@in_trio
async def test_an_older_release_takes_its_versions_and_closes_on_newer_ones(nursery: trio.Nursery) -> None:
    cluster = ClusterState(release=release_named("2.8"))
    client = MemoryClient(cluster, nursery)
    ranges = {api.api_key: api.max_version for api in (await client.ask(HELLO, 3)).api_keys}
    assert ranges[MetadataRequest.api_key] == 11
    assert ConsumerGroupHeartbeatRequest.api_key not in ranges
    await client.ask(MetadataRequest(topics=[]), 11)
    with pytest.raises(EOFError):
        await client.ask(MetadataRequest(topics=[]), 12)


@pytest.mark.parametrize(("version", "shows_those_from_0"), [(3, False), (4, True)])
def test_version_3_hides_features_that_start_at_0(version: int, shows_those_from_0: bool) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        answer = await MemoryClient(ClusterState(), nursery).ask(HELLO, version)
        supported = {feature.name for feature in answer.supported_features}
        assert "metadata.version" in supported
        assert ("group.version" in supported) is shows_those_from_0
        assert {feature.name: feature.max_version_level for feature in answer.finalized_features}["group.version"] == 1

    run()


@pytest.mark.parametrize(
    ("meant", "node_id", "code"),
    [
        (None, -1, 0),
        (None, 5, 42),
        ("right", 0, 0),
        ("right", 1, 129),
        ("right", -1, 42),
        ("wrong", 0, 129),
    ],
)
def test_who_names_a_cluster_and_a_broker_is_told_when_it_has_reached_another(
    meant: str | None, node_id: int, code: int
) -> None:
    """KIP-1242; rows as Kafka 4.4.0 answers them. Versions before 5 cannot say."""

    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        cluster_id = cluster.cluster_id if meant == "right" else meant
        hello = ApiVersionsRequest(
            client_software_name="kwire", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        )
        client = MemoryClient(cluster, nursery)
        assert (await client.ask(hello, 5)).error_code == code
        assert (await client.ask(hello, 4)).error_code == 0

    run()


@in_trio
async def test_a_malformed_software_name_is_refused(nursery: trio.Nursery) -> None:
    """KIP-511."""
    client = MemoryClient(ClusterState(), nursery)
    for name in ("", " kwire", "kw!re", "-kwire"):
        answer = await client.ask(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
        assert answer.error_code == 42, name
