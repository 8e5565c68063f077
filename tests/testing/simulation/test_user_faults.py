"""Worlds whose users' own code fails: drawn from the seed, told in the ledger, and a loss that comes of it is found."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from kwire.consumer.arguments import Timeout
from kwire.consumer.sync import Consumer
from kwire.errors import KafkaError, RecordDeserializationError
from kwire.fetching.columns import Records
from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Event, Polled, Raised
from kwire.testing.invariants.user_events import GivenUp, UserCodeRaised
from kwire.testing.simulation import run
from kwire.testing.simulation.drawing import draw, with_handling, with_user_faults
from kwire.testing.simulation.faults import FAULTS
from kwire.testing.simulation.run import WorldOutcome, simulate
from kwire.testing.simulation.scenario import Scenario
from kwire.testing.simulation.story import story
from kwire.testing.simulation.user_code import Interrupt, OutageError, UnreadableError, UserCode, UserError
from kwire.testing.simulation.user_faults import FOR_EVER, HARMLESS, UserFaults, draw_user_faults, text_of

UNREADABLE = replace(HARMLESS, bad_each=7, stretch=2, bad_keys=True)

pytestmark = pytest.mark.usefixtures("without_logs")


def outcome_of(
    faults: UserFaults, monkeypatch: pytest.MonkeyPatch, *, processing: bool = False, **changes: object
) -> WorldOutcome:
    """Of a world in which nothing else goes wrong."""
    quiet = replace(draw(1, ()), records_per_second=20.0, busy_ms=15_000.0, processing_ms=1.0)
    drawn = with_handling(quiet) if processing else quiet
    scenario: Scenario = replace(drawn, user_faults=faults, **changes)  # type: ignore[arg-type]  # fields, by name
    monkeypatch.setattr(run, "with_user_faults", lambda _drawn: scenario)
    return simulate(1, (), user_faults=True)


# --- what is drawn -------------------------------------------------------------------------------------------


def test_each_habit_is_drawn_and_left_out() -> None:
    drawn = [draw_user_faults(seed) for seed in range(100)]
    for habit in ("bad_each", "outages", "listener", "commit_callback", "interrupts", "interrupts_waiting"):
        assert {bool(getattr(each, habit)) for each in drawn} == {True, False}, habit
    assert {each.policy for each in drawn} == {"stop", "skip", "dead letter"}
    assert {each.attempts for each in drawn} >= {None, 1, 5}


def test_the_rest_of_the_world_is_as_it_was() -> None:
    for seed in range(20):
        assert replace(with_user_faults(draw(seed)), user_faults=None) == draw(seed)
        assert draw(seed).user_faults is None


def test_nobody_seeks_in_a_log_that_is_cut() -> None:
    cut = next(seed for seed in range(100) if tuple(FAULTS)[seed % len(FAULTS)] == "unclean-election")
    faults = with_user_faults(draw(cut)).user_faults
    assert faults is not None
    assert (faults.bad_each, faults.polls_again) == (0, FOR_EVER)


def test_payloads_tell_what_was_deserialized() -> None:
    payloads = [UNREADABLE.payload(f"value{n}", b"key", may_be_bad=True) for n in range(30)]
    assert payloads[2] == (b"+value2", b"+key")
    assert payloads[0] == (b"!value0", b"+key")
    assert payloads[14] == (b"+value14", b"!value14")
    assert UNREADABLE.payload("value0", None, may_be_bad=False) == (b"+value0", None)
    assert [text_of(value) for value, _ in payloads] == [f"value{n}" for n in range(30)]


# --- what is called ------------------------------------------------------------------------------------------


def code_of(faults: UserFaults, told: list[Event], *, is_calm: bool = False) -> UserCode:
    return UserCode(
        faults, "a", told.append, lambda: 0.0, lambda: is_calm, lambda _value: None, random.Random("user code")
    )


@pytest.mark.parametrize("in_context", [False, True])
def test_a_bad_payload_is_never_read_and_a_registry_comes_back(in_context: bool) -> None:
    told: list[Event] = []
    code = code_of(replace(HARMLESS, outages=1.0, in_context=in_context), told)
    for place, data, error in (
        ("key", b"!value1", UnreadableError),
        ("value", b"!value1", UnreadableError),
        ("value", b"+value1", OutageError),
    ):
        read = code.settings()[f"{place}_deserializer"]
        with pytest.raises(error):
            read.deserialize("t", (), data) if in_context else read(data)  # type: ignore[attr-defined,operator]
    assert [event.error for event in told if isinstance(event, UserCodeRaised)] == [
        "UnreadableError",
        "UnreadableError",
        "OutageError",
    ]
    calm = code_of(replace(HARMLESS, outages=1.0), told, is_calm=True).settings()["value_deserializer"]
    assert calm(b"+value1") == b"value1"  # type: ignore[operator]


def test_signal_handlers_strike_where_the_member_lets_them() -> None:
    told: list[Event] = []
    code = code_of(replace(HARMLESS, interrupts=1.0, interrupts_waiting=1.0), told)
    code.waited()
    code.begin_callback("on_partitions_assigned")
    with code.interruptible():
        with code.interruptible(is_so=False):
            code.waited()
        with pytest.raises(Interrupt):
            code.waited()
        with pytest.raises(Interrupt):
            code.begin_callback("on_partitions_assigned")
    assert len(told) == 2


def test_listeners_and_callbacks_raise_what_users_raise() -> None:
    code, raised = code_of(replace(HARMLESS, listener=1.0, commit_callback=1.0), []), set[type]()
    for _ in range(20):
        try:
            code.end_listener("on_partitions_revoked")
        except (KafkaError, UserError) as error:
            raised.add(type(error))
    assert len(raised) == 3
    with pytest.raises(UserError):
        code.end_commit_callback()
    code_of(HARMLESS, []).end_commit_callback()


# --- whole worlds --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_members_step_over_what_they_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(UNREADABLE, monkeypatch)
    assert not outcome.violations, story(outcome)
    given_up = Counter(event.how for event in outcome.ledger.of(GivenUp))
    assert given_up["seek"] > 10
    polled = {value for event in outcome.ledger.of(Polled) for value in event.values}
    assert not polled & {event.value for event in outcome.ledger.of(GivenUp)}


@pytest.mark.slow
def test_members_survive_listeners_and_callbacks_that_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = replace(HARMLESS, listener=0.5, commits_in_listener=0.5, commit_callback=0.5)
    outcome = outcome_of(faults, monkeypatch, committing="async", members=3)
    assert not outcome.violations, story(outcome)
    raised = Counter(event.place for event in outcome.ledger.of(UserCodeRaised))
    assert raised["commit callback"] > 3
    assert raised["on_partitions_assigned"] + raised["on_partitions_revoked"] > 1


@pytest.mark.slow
def test_a_processor_passes_by_what_its_handler_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = replace(HARMLESS, failing_each=11, policy="skip", most_attempts=2)
    outcome = outcome_of(faults, monkeypatch, processing=True)
    assert not outcome.violations, story(outcome)
    assert Counter(event.how for event in outcome.ledger.of(GivenUp)).keys() == {"skip"}


@pytest.mark.slow
def test_a_processor_that_stops_goes_on_when_its_handler_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = replace(HARMLESS, failing_each=41, policy="stop", most_attempts=2)
    outcome = outcome_of(faults, monkeypatch, processing=True)
    assert not outcome.violations, story(outcome)
    assert "ProcessingError" in {event.error for event in outcome.ledger.of(Raised)}
    assert not list(outcome.ledger.of(GivenUp))


@pytest.mark.slow
@pytest.mark.parametrize("processing", [False, True])
def test_such_a_world_is_the_same_each_time(processing: bool) -> None:
    first, second = (simulate(2, processing=processing, user_faults=True).digest for _ in range(2))
    assert first == second != simulate(2, processing=processing).digest


@pytest.mark.slow
def test_a_consumer_that_passes_by_what_it_cannot_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Consumer.poll

    def poll_on(self: Consumer[bytes, bytes], timeout: Timeout = 1.0) -> Records[bytes, bytes]:
        while True:
            try:
                return poll(self, timeout)
            except RecordDeserializationError as error:
                self.seek(error.partition, error.offset + 1)

    monkeypatch.setattr(Consumer, "poll", poll_on)
    rules = {violation.rule for violation in outcome_of(UNREADABLE, monkeypatch).violations}
    assert {"poll-skip", "lost-write", "commit-ahead"} & rules == {"poll-skip", "lost-write", "commit-ahead"}


@pytest.mark.slow
def test_a_member_that_seeks_too_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seek = Consumer.seek

    def seek_further(self: Consumer[bytes, bytes], partition: TopicPartition, offset: int) -> None:
        seek(self, partition, offset + 1)

    monkeypatch.setattr(Consumer, "seek", seek_further)
    assert "lost-write" in {violation.rule for violation in outcome_of(UNREADABLE, monkeypatch).violations}
