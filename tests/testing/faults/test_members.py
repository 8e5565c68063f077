"""Members as processes: they start, end, stand still and go on as they are told, and the ledger knows of all of it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.members import Members
from kwire.testing.faults.process_state import MemorySampler, is_stopped, resident_bytes
from kwire.testing.invariants.ledger import Closed, Frozen, Killed, Raised, Started, Thawed
from kwire.testing.kafka import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

TALKING_MEMBER = Path(__file__).with_name("talking_member.py")
ORDERS_0 = TopicPartition("orders", 0)
DEADLINE_S = 30.0


def plan(manner: str = "plain", number: int = 0, *, comes_back: bool = False) -> MemberPlan:
    client = shlex.join([sys.executable, "-S", str(TALKING_MEMBER), manner])
    return MemberPlan(
        number=number,
        client=client,
        protocol="consumer",
        topics=("orders",),
        comes_back=comes_back,
        settings=RunSettings(),
    )


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def members(recorder: Recorder, tmp_path: Path) -> Iterator[Members]:
    with Members(recorder, tmp_path, "127.0.0.1:1") as members:
        yield members


def violations(recorder: Recorder) -> list[str]:
    return [f"{violation.rule}: {violation.what}" for violation in recorder.violations]


def kinds(recorder: Recorder) -> list[str]:
    """Of all events but the talk."""
    return [type(event).__name__ for event in recorder.ledger.events if not isinstance(event, Raised)]


def test_a_member_starts_and_closes(members: Members, recorder: Recorder, tmp_path: Path) -> None:
    name = members.start(plan())
    assert (name, members.names(), members.running(0)) == ("member0.1", ("member0.1",), "member0.1")
    assert members.wait_settled([ORDERS_0], DEADLINE_S)
    assert members.owned(name) == {ORDERS_0}
    members.close(name)
    assert (members.names(), members.running(0), members.has_ended(name)) == ((), None, True)
    assert kinds(recorder) == ["Started", "Assigned", "Revoked", "Closed"]
    assert violations(recorder) == []
    assert "client.id=member0.1\n" in (tmp_path / name / "member.properties").read_text()


@pytest.mark.slow
def test_each_incarnation_has_a_name_of_its_own(members: Members, recorder: Recorder) -> None:
    first = members.start(plan())
    members.kill(first)
    names = (members.start(plan()), members.start(plan(number=3)), members.start(plan(number=-1)))
    assert names == ("member0.2", "member3.1", "twin0.1")
    assert (members.running(0), members.running(3), members.running(-1)) == names
    assert [event.member for event in recorder.ledger.of(Started)] == [first, *names]


def test_a_kill_is_the_last_word(members: Members, recorder: Recorder) -> None:
    name = members.start(plan())
    assert members.wait(lambda: next(recorder.ledger.of(Raised), None) is not None, DEADLINE_S)
    members.kill(name)
    assert isinstance(recorder.ledger.events[-1], Killed)
    assert members.owned(name) == frozenset()
    assert violations(recorder) == []
    members.kill(name)
    assert kinds(recorder).count("Killed") == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells whether a process stands still")
def test_a_frozen_member_stands_still_until_it_is_thawed(members: Members, recorder: Recorder) -> None:
    name = members.start(plan())
    pid = members.pid(name)
    assert pid is not None
    members.freeze(name)
    assert is_stopped(pid) is True
    assert not members.wait_settled([ORDERS_0], 0.0)
    frozen_at_ms = next(recorder.ledger.of(Frozen)).at_ms
    members.thaw(name)
    assert members.wait_settled([ORDERS_0], DEADLINE_S)
    assert next(recorder.ledger.of(Thawed)).at_ms >= frozen_at_ms
    thawed_at_ms = recorder.now_ms()
    assert members.wait(lambda: any(e.at_ms > thawed_at_ms for e in recorder.ledger.of(Raised)), DEADLINE_S)


def test_a_frozen_member_can_be_closed(members: Members, recorder: Recorder) -> None:
    name = members.start(plan())
    members.freeze(name)
    members.close(name)
    assert kinds(recorder)[-2:] == ["Revoked", "Closed"]


def test_whoever_ends_without_being_asked_to_is_told(members: Members, recorder: Recorder) -> None:
    leaving, crashing = members.start(plan("leaving")), members.start(plan("crashing", number=1))
    assert members.wait(lambda: members.has_ended(leaving) and members.has_ended(crashing), DEADLINE_S)
    assert members.wait(lambda: len(recorder.violations) == 2, DEADLINE_S)
    assert sorted(violations(recorder)) == [
        "ended: member0.1 closed without being asked to: ",
        "ended: member1.1 ended without a word: a bug",
    ]
    assert [event.member for event in recorder.ledger.of(Closed)] == [leaving]
    assert [event.member for event in recorder.ledger.of(Killed)] == [crashing]


@pytest.mark.slow
def test_who_ends_by_errors_comes_back_until_the_group_is_closed(
    members: Members, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.testing.faults.members.RESTART_PAUSE_S", 0.0)
    name = members.start(plan("failing-once", comes_back=True))
    assert members.wait(lambda: members.running(0) == "member0.2", DEADLINE_S)
    assert members.wait_settled([ORDERS_0], DEADLINE_S)
    members.close_all()
    (ended,) = [event for event in recorder.ledger.of(Raised) if event.call == "run"]
    assert (ended.member, ended.message) == (name, "a bad batch")
    assert [event.member for event in recorder.ledger.of(Closed)] == [name, "member0.2"]
    assert violations(recorder) == []


def test_nobody_comes_back_once_the_group_is_closed(members: Members, recorder: Recorder) -> None:
    members.close_all()
    name = members.start(plan("leaving", comes_back=True))
    assert members.wait(lambda: members.has_ended(name), DEADLINE_S)
    assert members.wait(lambda: any(event.call == "run" for event in recorder.ledger.of(Raised)), DEADLINE_S)
    assert members.names() == ()
    assert violations(recorder) == []


def test_who_may_end_by_itself_may(members: Members, recorder: Recorder) -> None:
    name = members.start(plan())
    members.expect_end(name)
    pid = members.pid(name)
    assert pid is not None
    os.kill(pid, 15)  # as if it had found out by itself
    assert members.wait(lambda: members.has_ended(name), DEADLINE_S)
    assert violations(recorder) == []


def test_a_twin_may_be_fenced_at_any_time(members: Members, recorder: Recorder) -> None:
    name = members.start(plan("leaving", number=-1))
    assert members.wait(lambda: members.has_ended(name), DEADLINE_S)
    assert violations(recorder) == []


def test_nonsense_is_told_with_its_text(members: Members, recorder: Recorder) -> None:
    members.start(plan("babbling"))
    assert members.wait(lambda: len(recorder.violations) == 1, DEADLINE_S)
    assert violations(recorder)[0].startswith("bad-line: member0.1 printed 'something happened'")


def test_who_does_not_start_says_why(members: Members, recorder: Recorder) -> None:
    with pytest.raises(ClusterError, match=r"member0\.1 does not start: no such broker"):
        members.start(plan("mute"))
    assert (members.names(), kinds(recorder)) == ((), [])


def test_nobody_outlives_the_run(recorder: Recorder, tmp_path: Path) -> None:
    with Members(recorder, tmp_path, "127.0.0.1:1") as members:
        names = [members.start(plan("stubborn")), members.start(plan(number=1))]
        members.freeze(names[1])
        pids = [members.pid(name) for name in names]
    for pid in pids:
        assert pid is not None
        assert resident_bytes(pid) is None
    assert kinds(recorder).count("Killed") == 2


def test_all_can_be_closed_at_once(members: Members, recorder: Recorder) -> None:
    for number in range(3):
        members.start(plan(number=number))
    members.close_all()
    assert len(list(recorder.ledger.of(Closed))) == 3


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells how much memory a process holds")
def test_memory_is_that_of_the_member_and_not_of_its_guard(members: Members) -> None:
    name = members.start(plan())
    pid = members.pid(name)
    assert pid is not None
    sampler = MemorySampler(lambda: 7.0, lambda: {name: pid, "gone": 2**22 - 1})
    sampler.look()
    (sample,) = sampler.samples
    assert (sample.at_ms, sample.member) == (7.0, name)
    assert 1_000_000 < sample.resident_bytes < 100_000_000
