"""Joining, sharing, leaving, being fenced: a consumer group as its members see it (KIP-848)."""

from __future__ import annotations

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kwire.testing.cluster.groups.refusal import GroupRefusal
from tests.testing.cluster.groups.coordinator_model import REBALANCE_TIMEOUT_MS, Consumer, Coordinator, settle


def refused(code: ErrorCode) -> pytest.RaisesExc[GroupRefusal]:
    return pytest.RaisesExc(GroupRefusal, check=lambda refusal: refusal.code is code)


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("a", 4)
    return made


def joined(coordinator: Coordinator, name: str, **fields: object) -> Consumer:
    made = Consumer(coordinator, name, ["a"], **fields)  # type: ignore[arg-type]
    made.join()
    return made


def test_the_only_member_gets_everything_with_its_first_heartbeat(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    assert one.partitions == [0, 1, 2, 3]
    assert one.epoch == 2
    assert coordinator.group.state_name == "Stable"


def test_a_partition_goes_over_only_when_it_was_given_up(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    two = joined(coordinator, "two")
    assert two.partitions == []
    assert coordinator.group.state_name == "Reconciling"
    one.beat()
    assert len(one.partitions) == 2
    two.beat()
    assert two.partitions == []
    one.beat()
    two.beat()
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
    assert coordinator.group.state_name == "Stable"


def test_the_assignment_is_told_once_and_again_when_asked_for(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    assert one.beat().assignment is None
    again = one.beat(rebalance_timeout_ms=REBALANCE_TIMEOUT_MS, subscribed_topic_names=["a"])
    assert again.assignment is not None


def test_what_a_leaver_had_goes_to_the_others(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    settle(one, two)
    assert two.leave().member_epoch == -1
    settle(one)
    assert one.partitions == [0, 1, 2, 3]


def test_a_new_assignment_waits_for_the_assignment_interval() -> None:
    coordinator = Coordinator({"group_consumer_assignment_interval_ms": 1_000})
    coordinator.topic("a", 4)
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    settle(one, two)
    assert (len(one.partitions), len(two.partitions)) == (4, 0)
    assert coordinator.group.state_name == "Assigning"
    coordinator.pass_time(1_000)
    settle(one, two)
    assert (len(one.partitions), len(two.partitions)) == (2, 2)


def test_a_member_whose_session_ends_is_out(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    settle(one, two)
    coordinator.pass_time(44_000)
    one.beat()
    coordinator.pass_time(1_000)
    assert list(coordinator.group.members) == ["one"]
    settle(one)
    assert one.partitions == [0, 1, 2, 3]
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        two.beat()


def test_a_group_may_have_its_own_session_timeout_and_interval(coordinator: Coordinator) -> None:
    coordinator.cluster.group_configs["group"] = {
        "consumer.session.timeout.ms": "6000",
        "consumer.heartbeat.interval.ms": "500",
    }
    one = joined(coordinator, "one")
    assert one.beat().heartbeat_interval_ms == 500
    coordinator.pass_time(6_000)
    assert coordinator.group.is_empty


def test_who_does_not_give_up_in_time_is_fenced(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    one.beat()
    for _ in range(REBALANCE_TIMEOUT_MS // 10_000):
        coordinator.pass_time(10_000)
        if "one" in coordinator.group.members:
            one.beat(topic_partitions=None)  # alive, and says nothing of having given up
        two.beat()
    assert list(coordinator.group.members) == ["two"]
    settle(two)
    assert two.partitions == [0, 1, 2, 3]


def test_who_gives_up_in_time_is_not_fenced(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    settle(one, two)
    for _ in range(REBALANCE_TIMEOUT_MS // 10_000 + 1):
        coordinator.pass_time(10_000)
        settle(one, two, rounds=1)
    assert list(coordinator.group.members) == ["one", "two"]


def test_more_partitions_are_shared_out_with_the_next_heartbeats(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    settle(one, two)
    epoch = coordinator.group.epoch
    coordinator.cluster.grow_topic("a", 6)
    settle(one, two)
    assert coordinator.group.epoch == epoch + 1
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3, 4, 5]


def test_a_topic_that_comes_later_is_read(coordinator: Coordinator) -> None:
    one = Consumer(coordinator, "one", ["later"])
    one.join()
    assert one.partitions == []
    topic = coordinator.topic("later", 1)
    one.beat()
    assert one.owned == {topic: [0]}


def test_a_topic_that_is_deleted_is_taken_away(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    coordinator.cluster.delete_topic("a")
    one.beat()
    one.beat()
    assert one.partitions == []
    assert coordinator.group.state_name == "Stable"


def test_another_subscription_takes_effect_in_the_same_heartbeat(coordinator: Coordinator) -> None:
    topic = coordinator.topic("b", 2)
    one = joined(coordinator, "one")
    one.beat(subscribed_topic_names=["b"])
    assert one.owned == {}, "what it is not subscribed to any more comes first"
    one.beat()
    assert one.owned == {topic: [0, 1]}


def test_an_epoch_from_the_future_is_fenced(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    one.epoch += 1
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        one.beat()


def test_the_epoch_before_is_taken_as_long_as_nothing_foreign_is_owned(coordinator: Coordinator) -> None:
    """The answer that raised the epoch was lost: the member comes again with the old one."""
    one = joined(coordinator, "one")
    two = joined(coordinator, "two")
    old, everything = one.epoch, one.owned
    one.beat()
    one.beat()
    assert one.epoch > old
    answer = coordinator.ask("one", old, topic_partitions=[])
    assert answer.member_epoch == one.epoch
    owned = [TopicPartitions(topic_id=topic, partitions=some) for topic, some in everything.items()]
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.ask("one", old, topic_partitions=owned)
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.ask("one", old, topic_partitions=None)
    assert two.epoch


def test_a_fenced_member_joins_again_under_its_id(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    one.join()
    assert one.partitions == [0, 1, 2, 3]


def test_strangers_and_groups_that_are_not_there(coordinator: Coordinator) -> None:
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        coordinator.ask("one", 3)
    joined(coordinator, "one")
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        coordinator.ask("two", 3)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        coordinator.ask("two", -1)


def test_a_full_group_takes_nobody_else() -> None:
    coordinator = Coordinator({"group_consumer_max_size": 1})
    coordinator.topic("a", 1)
    one = joined(coordinator, "one")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        joined(coordinator, "two")
    one.beat()


def test_most_votes_choose_the_assignor(coordinator: Coordinator) -> None:
    for name in ("one", "two"):
        joined(coordinator, name, assignor="range")
    joined(coordinator, "three", assignor="uniform")
    assert coordinator.group.assignor == "range"


def test_a_new_coordinator_knows_all_and_starts_sessions_anew(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    coordinator.pass_time(44_000)
    coordinator.group.coordinator_moved(coordinator.now_ms)
    coordinator.pass_time(44_000)
    assert one.beat().member_epoch == one.epoch
    coordinator.pass_time(45_000)
    assert coordinator.group.is_empty


# --- static members --------------------------------------------------------------------------------------------------


def test_the_place_of_a_static_member_is_kept_while_it_is_away(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one", instance_id="i"), joined(coordinator, "two")
    settle(one, two)
    kept, epoch = one.partitions, coordinator.group.epoch
    assert one.leave(-2).member_epoch == -2
    settle(two)
    assert len(two.partitions) == 2
    back = joined(coordinator, "back", instance_id="i")
    assert back.partitions == kept
    assert coordinator.group.epoch == epoch
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        one.beat()


def test_a_static_member_that_does_not_come_back_is_out_when_its_session_ends(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one", instance_id="i"), joined(coordinator, "two")
    settle(one, two)
    one.leave(-2)
    coordinator.pass_time(40_000)
    settle(two)
    coordinator.pass_time(5_000)
    settle(two)
    assert two.partitions == [0, 1, 2, 3]


def test_an_instance_id_in_use_is_not_given_to_another(coordinator: Coordinator) -> None:
    joined(coordinator, "one", instance_id="i")
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID):
        joined(coordinator, "two", instance_id="i")
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        coordinator.ask("one", 3, instance_id="other")


def test_a_static_member_that_leaves_for_good_gives_its_place_up(coordinator: Coordinator) -> None:
    joined(coordinator, "one", instance_id="i").leave()
    assert joined(coordinator, "two", instance_id="i").partitions == [0, 1, 2, 3]


# --- patterns --------------------------------------------------------------------------------------------------------


def test_a_pattern_is_looked_up_after_the_heartbeat_that_brings_it(coordinator: Coordinator) -> None:
    one = Consumer(coordinator, "one", None, regex="[a-c]")
    assert one.join().assignment is not None
    assert one.partitions == []
    one.beat()
    assert one.partitions == [0, 1, 2, 3]


def test_new_topics_are_found_ten_seconds_after_the_last_look(coordinator: Coordinator) -> None:
    one = Consumer(coordinator, "one", None, regex="[a-c]")
    one.join()
    settle(one)
    topic = coordinator.topic("b", 1)
    settle(one)
    assert topic not in one.owned
    coordinator.pass_time(10_001)
    settle(one)
    assert one.owned[topic] == [0]


def test_a_malformed_pattern_is_refused_and_changes_nothing(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        one.beat(subscribed_topic_regex="(")
    assert coordinator.group.members["one"].pattern == ""


def test_a_pattern_and_names_together_subscribe_to_both(coordinator: Coordinator) -> None:
    b = coordinator.topic("b", 1)
    one = Consumer(coordinator, "one", ["a"], regex="b")
    one.join()
    settle(one)
    assert one.partitions == [0, 0, 1, 2, 3]
    one.beat(subscribed_topic_regex="")
    settle(one)
    assert b not in one.owned


# --- commits (KIP-1251) ----------------------------------------------------------------------------------------------


def check_commit(coordinator: Coordinator, member_id: str, epoch: int, *partitions: int, version: int = 9) -> None:
    topic_id = coordinator.cluster.topics["a"].topic_id
    coordinator.group.check_commit(
        member_id=member_id,
        instance_id=None,
        generation=epoch,
        version=version,
        is_transactional=False,
        partitions=[(topic_id, partition) for partition in partitions],
    )


def test_an_old_epoch_commits_what_was_owned_since_then(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    old = one.epoch
    settle(one, two)
    assert one.epoch > old
    check_commit(coordinator, "one", old, *one.partitions)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        check_commit(coordinator, "one", old, *two.partitions)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        check_commit(coordinator, "two", two.epoch - 1, *two.partitions)


def test_what_has_to_be_given_up_can_still_be_committed(coordinator: Coordinator) -> None:
    one, two = joined(coordinator, "one"), joined(coordinator, "two")
    old = one.epoch
    one.beat()
    check_commit(coordinator, "one", old, 0, 1, 2, 3)
    assert two.partitions == []


def test_commits_that_no_member_may_make(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        check_commit(coordinator, "one", one.epoch + 1, 0)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        check_commit(coordinator, "stranger", one.epoch, 0)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        check_commit(coordinator, "", -1, 0)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        check_commit(coordinator, "one", one.epoch, 0, version=8)
    one.leave()
    check_commit(coordinator, "", -1, 0)


def test_offsets_are_told_to_members_in_their_epoch_and_to_administrators(coordinator: Coordinator) -> None:
    one = joined(coordinator, "one")
    coordinator.group.check_fetch(member_id=None, generation=-1)
    coordinator.group.check_fetch(member_id="one", generation=one.epoch)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        coordinator.group.check_fetch(member_id="one", generation=one.epoch - 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        coordinator.group.check_fetch(member_id="stranger", generation=one.epoch)
