"""Consumers that meet a hostile peer: a case of each kind, and proof that the fuzzer would notice what it looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire import Consumer
from kwire.errors import InternalError
from tools.fuzz import peer
from tools.fuzz.misbehaviours import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


def number_of(kind: str) -> str:
    """A case of that kind that begins when the consumer does, and lasts for one answer."""
    for number in (f"test/{index}" for index in range(1_000)):
        case = peer.draw(number, [kind])
        if case.phase == "starting" and case.times == 1:
            return number
    raise LookupError(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_gets_over_what_a_peer_does_wrong_or_says_what_it_is(kind: str) -> None:
    (outcome,) = peer.fuzz([number_of(kind)], [kind])
    assert outcome.finding == "", str(outcome)
    assert outcome.end in {"got over", "told"}


def test_a_number_decides_everything() -> None:
    assert [peer.draw(f"7/{number}") for number in range(50)] == [peer.draw(f"7/{number}") for number in range(50)]
    assert {peer.draw(f"7/{number}").kind for number in range(1_000)} == set(KINDS)


def poll_nothing(consumer: object, timeout: float | None = None) -> list[object]:
    del consumer, timeout
    return []


def break_down(consumer: object, timeout: float | None = None) -> list[object]:
    raise KeyError(timeout)


def tell_of_a_bug(consumer: object, timeout: float | None = None) -> list[object]:
    raise InternalError("the network thread has died")


@pytest.mark.parametrize(
    ("poll", "finding"), [(poll_nothing, "hang"), (break_down, "KeyError: "), (tell_of_a_bug, "InternalError: ")]
)
def test_consumers_that_stand_still_or_break_down_are_findings(
    monkeypatch: pytest.MonkeyPatch, poll: Callable[..., list[object]], finding: str
) -> None:
    monkeypatch.setattr(Consumer, "poll", poll)
    monkeypatch.setattr(peer, "RECOVERY_S", 0.2)
    (outcome,) = peer.fuzz([number_of("hang_up")], ["hang_up"])
    assert outcome.finding.startswith(finding)
    assert peer.Report([outcome]).findings == [outcome]


def test_memory_beyond_the_bound_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "MAX_BYTES", -1 << 40)
    (outcome,) = peer.fuzz([number_of("hang_up")], ["hang_up"])
    assert outcome.finding == "too much memory"


def test_a_close_that_takes_its_time_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "CLOSE_MARGIN_S", -peer.CLOSE_S)
    (outcome,) = peer.fuzz([number_of("hang_up")], ["hang_up"])
    assert outcome.finding.startswith("close took")


def test_the_command_prints_a_table_and_fails_if_there_are_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = peer.draw("1/2")
    found = peer.Outcome(case=case, end="hang", met=3, errors=("ProtocolError: odd",), seconds=5, finding="hang")
    well = peer.Outcome(case=case, end="got over", met=1, seconds=0.1)
    ends = {"bad": [[well], [found]], "good": [[well, well]]}
    monkeypatch.setattr(peer, "run_all", lambda *_, **__: ends["bad"])
    assert peer.main(["--count", "2"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split() == [case.kind, "2", "2", "1", "0", "1", "5.0", "s", "0", "MiB"]
    assert printed[-2].startswith(f"FOUND {case}: hang, 5.0 s")
    monkeypatch.setattr(peer, "run_all", lambda *_, **__: ends["good"])
    assert peer.main(["--count", "2"]) == 0
    with pytest.raises(SystemExit):
        peer.main(["--count", "0"])
