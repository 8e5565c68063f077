"""Worlds whose clients log in: sessions that are renewed in time, logins that are refused for a while, and TLS."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import trio

from kwire.network import authentication
from kwire.testing.invariants.ledger import Calm, Closing, FaultEnded, Polled, Raised
from kwire.testing.simulation import run
from kwire.testing.simulation.drawing import draw, with_logins
from kwire.testing.simulation.login_faults import LOGIN_FAULTS
from kwire.testing.simulation.logins import EACH_HOUR, HOUR_MS, Logins, draw_logins
from kwire.testing.simulation.run import WorldOutcome, simulate
from kwire.testing.simulation.scenario import Strike

DIGESTS = """
import logging
from kwire.testing.simulation import simulate
logging.disable(logging.CRITICAL)
print(*(simulate(seed, ("password-changed",), secured=True).digest for seed in ({seeds})))
"""
SHORT_MS = 5_000

pytestmark = pytest.mark.usefixtures("without_logs")


def outcome_of(
    logins: Logins, monkeypatch: pytest.MonkeyPatch, *, fault: str | None = None, seed: int = 1, **changes: object
) -> WorldOutcome:
    """Of a world in which nothing else goes wrong."""
    strikes = (Strike(fault=fault, begins_ms=4_000.0, ends_ms=14_000.0),) if fault else ()
    quiet = replace(draw(seed, ()), busy_ms=20_000.0, members=2, brokers=2, records_per_second=10.0)
    scenario = replace(quiet, logins=logins, strikes=strikes, **changes)  # type: ignore[arg-type]  # fields, by name
    monkeypatch.setattr(run, "with_logins", lambda _drawn, _only: scenario)
    return simulate(seed, (), secured=True)


def digests(hash_seed: str, *seeds: int) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    program = DIGESTS.format(seeds=", ".join(map(str, seeds)))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


# --- what is drawn -------------------------------------------------------------------------------------------


def test_worlds_are_drawn_with_and_without_tls_and_with_sessions_of_all_lengths() -> None:
    drawn = {seed: draw_logins(seed) for seed in range(1, 101)}
    assert {each.has_tls for each in drawn.values()} == {True, False}
    assert [seed for seed, each in drawn.items() if each.session_ms == HOUR_MS] == list(
        range(EACH_HOUR, 101, EACH_HOUR)
    )
    others = [each.session_ms for each in drawn.values() if each.session_ms != HOUR_MS]
    assert min(others) < 8_000
    assert max(others) > 50_000
    assert draw_logins(EACH_HOUR, may_rest=False).session_ms < HOUR_MS
    assert all(each.resting_ms == 0.0 for each in drawn.values() if each.session_ms != HOUR_MS)


def test_a_seed_keeps_its_faults_and_gets_some_of_logins() -> None:
    plain = draw(7)
    secured = with_logins(plain)
    assert set(plain.strikes) < set(secured.strikes)
    assert {strike.fault for strike in set(secured.strikes) - set(plain.strikes)} <= set(LOGIN_FAULTS)
    assert with_logins(draw(7, ()), ()).strikes == ()
    assert {strike.fault for seed in range(40) for strike in with_logins(draw(seed)).strikes} >= set(LOGIN_FAULTS)


# --- sessions ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("has_tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_short_sessions_are_renewed_in_time_and_nobody_notices(has_tls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(Logins(has_tls=has_tls, session_ms=SHORT_MS), monkeypatch)
    assert outcome.violations == ()
    assert outcome.logins["renewed"] > outcome.logins["new"] > 0
    assert list(outcome.ledger.of(Raised)) == []


@pytest.mark.slow
def test_a_client_that_does_not_renew_its_login_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_lifetime_ms: float, _longest_wait_ms: float) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(authentication, "sleep_until_renewal", never)
    outcome = outcome_of(Logins(has_tls=False, session_ms=SHORT_MS), monkeypatch)
    assert outcome.logins["renewed"] == 0
    assert "renewed-late" in {violation.rule for violation in outcome.violations}


@pytest.mark.slow
def test_sessions_of_an_hour_are_renewed_while_the_group_is_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(Logins(has_tls=True, session_ms=HOUR_MS), monkeypatch, members=1, brokers=1)
    assert outcome.violations == ()
    assert outcome.logins["renewed"] > 0
    calm, closing = next(outcome.ledger.of(Calm)), next(outcome.ledger.of(Closing))
    assert closing.at_ms - calm.at_ms > HOUR_MS


# --- faults --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("has_tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_members_that_are_refused_say_so_and_go_on_when_they_are_let_in_again(
    has_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = outcome_of(Logins(has_tls=has_tls, session_ms=SHORT_MS), monkeypatch, fault="password-changed")
    assert outcome.violations == ()
    assert "SaslAuthenticationError" in {raised.error for raised in outcome.ledger.of(Raised)}
    healed = next(outcome.ledger.of(FaultEnded))
    assert any(polled.at_ms > healed.at_ms for polled in outcome.ledger.of(Polled))


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(LOGIN_FAULTS))
def test_a_fault_of_logins_loses_nothing(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(Logins(has_tls=False, session_ms=SHORT_MS), monkeypatch, fault=fault)
    assert outcome.violations == ()
    assert outcome.faults[fault] == 1


# --- the same run each time ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_seed_is_the_same_run_in_every_process_with_tls_and_without() -> None:
    seeds = [next(seed for seed in range(1, 20) if draw_logins(seed).has_tls is has_tls) for has_tls in (True, False)]
    found = digests("1", *seeds)
    assert len(set(found)) == 2
    assert digests("2", *seeds) == found
