"""Some thousand damaged inputs in every run, and proof that the fuzzer would notice what it looks for."""

from __future__ import annotations

import hmac
import json
import time
from typing import TYPE_CHECKING

import pytest

from kwire.errors import ProtocolError
from tools.fuzz import cli as fuzz_cli
from tools.fuzz.mutations import MUTATIONS
from tools.fuzz.sasl import BelievedError, answers
from tools.fuzz.targets import LIMIT_BYTES, SASL_TALKS, Seed, seeds

if TYPE_CHECKING:
    from tools.fuzz.targets import Decode

pytestmark = pytest.mark.usefixtures("in_c_and_in_python")


@pytest.mark.slow
def test_damaged_bytes_end_as_results_or_as_the_two_errors_in_bounded_time_and_memory() -> None:
    report = fuzz_cli.fuzz(3000, seed=20)
    assert report.findings == []
    assert set(report.mutations) == {mutation.__name__ for mutation in MUTATIONS}
    assert {outcome for _, outcome in report.outcomes} == set(fuzz_cli.GOOD_ENDS)
    assert {target for target, _ in report.outcomes} == set(seeds())


def test_a_seed_decides_everything() -> None:
    targets = {"message": seeds()["message"][:5]}
    first, second = (fuzz_cli.fuzz(50, seed=3, targets=targets) for _ in range(2))
    assert (first.outcomes, first.mutations) == (second.outcomes, second.mutations)


def crash(data: bytes) -> None:
    raise KeyError(len(data))


def refuse(data: bytes) -> None:
    raise ProtocolError(f"{len(data)} bytes")


def hoard(data: bytes) -> int:
    return len(bytearray(LIMIT_BYTES * 2)) + len(data)


@pytest.mark.parametrize(("decode", "found"), [(crash, 10), (hoard, 10), (refuse, 0), (len, 0)])
def test_foreign_exceptions_and_large_allocations_are_findings(decode: Decode, found: int) -> None:
    report = fuzz_cli.fuzz(10, seed=1, targets={"message": [Seed("made up", b"\x00\x01\x02", decode)]})
    assert len(report.findings) == found


def test_slow_calls_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 1000, 2))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    report = fuzz_cli.fuzz(5, seed=1, targets={"message": [Seed("made up", b"\x00", len)]})
    assert len(report.findings) == 5


def test_the_command_says_what_it_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fuzz_cli, "limit_memory", lambda: None)
    monkeypatch.setattr(fuzz_cli, "seeds", lambda: {"message": [Seed("made up", b"\x00", crash)]})
    assert fuzz_cli.main(["5", "--seed", "9"]) == 1
    assert "KeyError" in capsys.readouterr().out
    monkeypatch.setattr(fuzz_cli, "seeds", lambda: {"message": [Seed("made up", b"\x00", refuse)]})
    assert fuzz_cli.main(["5", "--seed", "9"]) == 0
    assert "5 calls, 0 findings" in capsys.readouterr().out


@pytest.mark.slow
def test_damaged_answers_of_sasl_servers_are_refused_and_never_believed() -> None:
    report = fuzz_cli.fuzz(3000, seed=22, targets={"sasl": seeds()["sasl"]})
    assert report.findings == []
    assert {outcome for _, outcome in report.outcomes} == {"read", "ProtocolError", "SaslAuthenticationError"}


def test_an_exchange_that_believes_any_signature_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hmac, "compare_digest", lambda _one, _other: True)
    talks = map(json.loads, SASL_TALKS.read_text().splitlines())
    talk = next(talk for talk in talks if talk["case"] == "SCRAM-SHA-256")
    _, final, take = list(answers(talk))[2]
    take(final)
    with pytest.raises(BelievedError):
        take(b"v=AAAA")
    assert fuzz_cli.fuzz(50, seed=1, targets={"sasl": [Seed("final", final, take)]}).findings


def test_one_target_may_be_chosen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fuzz_cli, "limit_memory", lambda: None)
    monkeypatch.setattr(
        fuzz_cli, "seeds", lambda: {"frame": [Seed("f", b"\x00", crash)], "sasl": [Seed("s", b"\x00", refuse)]}
    )
    assert fuzz_cli.main(["5", "--target", "sasl"]) == 0
    assert "sasl" in capsys.readouterr().out
