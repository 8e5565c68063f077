"""When tokens are asked for, and what those who need one get, in virtual time. The questions are counted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.config import OAuthToken
from kwire.errors import AuthenticationError, NoTokenError
from kwire.network.login.failures import TokenRequestError

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeLogin, RunVirtually

HOUR_S = 3600.0
Living = Callable[..., OAuthToken]


async def error_of(ask: Callable[[], object]) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as caught:
        await ask()  # type: ignore[misc]  # a coroutine function
    return caught.value


def test_a_day_of_tokens_that_live_an_hour(make_login: MakeLogin, run_virtually: RunVirtually, living: Living) -> None:
    """Each is renewed after 0.8 of its life and half of the jitter, 0.825: no connection ever finds an expired one."""
    names = iter(range(1_000))

    async def test() -> None:
        virtual = make_login(lambda: living(HOUR_S, str(next(names))))
        async with virtual.running():
            for _ in range(24 * 60):
                token = await virtual.login.token()
                assert token.expires_at_ms is not None
                left_ms = token.expires_at_ms - (1_800_000_000_000 + trio.current_time() * 1000)
                assert left_ms > 0.17 * HOUR_S * 1000
                await trio.sleep(60)
        assert virtual.asked_at_s == pytest.approx([number * 2970 for number in range(30)])

    run_virtually(test)


def test_all_connections_wait_for_one_question(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: living(HOUR_S), takes_s=20.0)
        got: list[OAuthToken] = []

        async def connect() -> None:
            got.append(await virtual.login.token())

        async with virtual.running():
            async with trio.open_nursery() as connections:
                for number in range(100):
                    connections.start_soon(connect)
                    await trio.sleep(0.1 if number < 50 else 0)  # half of them while it is under way
            await trio.sleep(60)
        assert len(got) == 100
        assert virtual.asked_at_s == [0.0]

    run_virtually(test)


def test_the_held_token_serves_while_renewing_fails_and_the_new_one_from_then_on(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living, caplog: pytest.LogCaptureFixture
) -> None:
    """The login server is away from the first renewal on, at 2970 s, until 5 minutes later: nobody notices."""

    def answer() -> OAuthToken | TokenRequestError:
        if 2900 < trio.current_time() < 3270:
            return TokenRequestError("the login server is down")
        return living(HOUR_S, f"made-at-{trio.current_time():.0f}")

    async def test() -> None:
        virtual = make_login(answer)
        async with virtual.running():
            for _ in range(60):
                await virtual.login.token()
                await trio.sleep(60)
        assert virtual.asked_at_s[1] == pytest.approx(2970)
        # Pauses double from 0.1 to 10 s: 7 to get there, then one each 10 s.
        assert len(virtual.asked_at_s) < 7 + 300 / 10 + 2
        assert (await virtual.login.token()).value.startswith("made-at-32")

    with caplog.at_level(logging.WARNING, "kwire.login"):
        run_virtually(test)
    assert [record.getMessage() for record in caplog.records] == [
        "no new token; the one before goes on being used: the login server is down"
    ]


def test_when_the_held_token_has_ended_the_error_says_why_there_is_no_new_one(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(
            lambda: living(HOUR_S) if trio.current_time() < 1 else TokenRequestError("the login server is down")
        )
        async with virtual.running():
            await virtual.login.token()
            await trio.sleep(HOUR_S - 1)
            await virtual.login.token()
            await trio.sleep(2)

            error = await error_of(virtual.login.token)

        assert isinstance(error, NoTokenError)
        assert "the login server is down" in str(error)

    run_virtually(test)


def test_a_server_that_is_down_from_the_beginning_is_told_of_after_ten_seconds_and_asked_every_ten(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: TokenRequestError("down") if trio.current_time() < 600 else living(HOUR_S))
        async with virtual.running():
            await error_of(virtual.login.token)
            assert 10 <= trio.current_time() <= 25
            while trio.current_time() < 590:  # a client that dials again and again
                await error_of(virtual.login.token)
                await trio.sleep(0.25)
            assert len(virtual.asked_at_s) < 8 + 600 / 9

            await trio.sleep(30)
            await virtual.login.token()

    run_virtually(test)


def test_refused_credentials_are_asked_about_once_a_minute_and_only_if_somebody_needs_a_token(
    make_login: MakeLogin, run_virtually: RunVirtually
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: TokenRequestError("wrong secret", is_refused=True))
        async with virtual.running():
            error = await error_of(virtual.login.token)
            assert not isinstance(error, NoTokenError)
            assert trio.current_time() < 1
            await trio.sleep(24 * HOUR_S)
            assert len(virtual.asked_at_s) == 1

            for _ in range(600):
                await error_of(virtual.login.token)
                await trio.sleep(1)
            assert 10 <= len(virtual.asked_at_s) - 1 <= 11

    run_virtually(test)


def test_once_a_refusal_is_old_its_error_is_told_to_nobody(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    """The secret was wrong; a minute later it is right, but the server is away for a moment."""

    def answer() -> OAuthToken | TokenRequestError:
        if trio.current_time() < 1:
            return TokenRequestError("wrong secret", is_refused=True)
        return TokenRequestError("down") if trio.current_time() < 71 else living(HOUR_S)

    async def test() -> None:
        virtual = make_login(answer)
        async with virtual.running():
            await error_of(virtual.login.token)
            await trio.sleep(70)
            async with trio.open_nursery() as connections:
                for _ in range(20):
                    connections.start_soon(virtual.login.token)
                    await trio.sleep(0.1)

    run_virtually(test)


def test_pauses_of_no_length_make_no_storm(make_login: MakeLogin, run_virtually: RunVirtually) -> None:
    async def test() -> None:
        virtual = make_login(
            lambda: TokenRequestError("down"), sasl_login_retry_backoff_ms=0, sasl_login_retry_backoff_max_ms=0
        )
        async with virtual.running():
            while trio.current_time() < 60:
                await error_of(virtual.login.token)
                await trio.sleep(0.05)
        assert len(virtual.asked_at_s) <= 61

    run_virtually(test)


def test_a_refused_renewal_is_tried_again_each_minute_while_the_held_token_lives(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(
            lambda: living(HOUR_S) if trio.current_time() < 1 else TokenRequestError("wrong secret", is_refused=True)
        )
        async with virtual.running():
            await trio.sleep(10 * HOUR_S)
        # From 2970 s until the end at 3600 s, and then no more: nobody needs a token.
        assert 11 <= len(virtual.asked_at_s) - 1 <= 12

    run_virtually(test)


def test_a_server_that_wants_to_be_left_alone_is_left_alone(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(
            lambda: TokenRequestError("429", pause_ms=30_000) if trio.current_time() < 1 else living(HOUR_S)
        )
        async with virtual.running():
            await virtual.login.token()
        assert virtual.asked_at_s == [0.0, 30.0]

    run_virtually(test)


def test_tokens_whose_end_nobody_knows_are_asked_for_when_needed_and_used_for_the_least_period(
    make_login: MakeLogin, run_virtually: RunVirtually
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: OAuthToken("opaque"))
        async with virtual.running():
            await virtual.login.token()
            await trio.sleep(2 * HOUR_S)
            assert len(virtual.asked_at_s) == 1

            for _ in range(120):  # a storm of reconnects
                await virtual.login.token()
                await trio.sleep(1)
            assert len(virtual.asked_at_s) == 3

    run_virtually(test)


def test_a_token_whose_end_nobody_knows_is_kept_when_no_newer_one_comes(
    make_login: MakeLogin, run_virtually: RunVirtually
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: OAuthToken("opaque") if trio.current_time() < 1 else TokenRequestError("down"))
        async with virtual.running():
            await virtual.login.token()
            await trio.sleep(HOUR_S)
            assert (await virtual.login.token()).value == "opaque"

    run_virtually(test)


def test_tokens_that_live_a_moment_make_no_storm(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: living(0.01))
        async with virtual.running():
            while trio.current_time() < 60:  # a client that dials again and again
                await virtual.login.token()
                await trio.sleep(0.02)
        assert len(virtual.asked_at_s) <= 61

    run_virtually(test)


def test_an_expired_token_is_told_of_at_once_with_both_clocks(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: living(-7200))
        async with virtual.running():
            error = await error_of(virtual.login.token)
            assert trio.current_time() < 1
        assert "expired before it came, at 2027-01-15 06:00:00 UTC" in str(error)
        assert "clock says 2027-01-15 08:00:00 UTC" in str(error)

    run_virtually(test)


def test_a_machine_that_has_slept_over_the_end_of_its_token_asks_as_soon_as_it_wakes(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    """Only the wall clock goes on while a machine sleeps; the token is held until its end has passed on that clock."""

    async def test() -> None:
        lives_s = [HOUR_S, HOUR_S]
        virtual = make_login(lambda: living(lives_s.pop(0)))
        async with virtual.running():
            first = await virtual.login.token()
            assert first.expires_at_ms is not None
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    "kwire.network.login.token_login.wall_clock_ms", lambda: first_end(first) + trio.current_time()
                )
                await trio.sleep(61)
                assert len(virtual.asked_at_s) == 2

    def first_end(token: OAuthToken) -> float:
        assert token.expires_at_ms is not None
        return token.expires_at_ms - 1

    run_virtually(test)


def test_who_waits_longer_than_a_minute_because_the_settings_say_so_is_told_what_failed(
    make_login: MakeLogin, run_virtually: RunVirtually
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: TokenRequestError("down"), sasl_login_retry_backoff_max_ms=600_000)
        async with virtual.running():
            error = await error_of(virtual.login.token)
        assert str(error) == "no token from sasl_oauth_token_provider within 60 s: down"

    run_virtually(test)


def test_who_waits_for_a_provider_that_never_returns_is_told_after_a_minute(
    make_login: MakeLogin, run_virtually: RunVirtually, living: Living
) -> None:
    async def test() -> None:
        virtual = make_login(lambda: living(HOUR_S), takes_s=float("inf"))
        async with virtual.running():
            error = await error_of(virtual.login.token)
        assert str(error) == "no token from sasl_oauth_token_provider within 60 s: it has not answered"
        assert virtual.asked_at_s == [0.0]

    run_virtually(test)
