"""The tokens of one consumer: asked for in the background, before they expire.

One task asks (`run`), and one question is under way at a time, however many connections wait for its answer. What it
does next:

    held, its end known        asks at the time that `refresh.py` says; the held one serves until its end
    held, its end not known    asks when one is needed that has served for sasl_login_refresh_min_period_seconds
    none, or a failure         asks again after a pause that doubles from sasl_login_retry_backoff_ms to ..._max_ms
    refused                    asks again when a token is needed, or while it still holds a valid one, a minute later

Who waits for the first token is told of a failure when it is certain: at once if asking again would come to the same,
else when it has failed for as long as sasl_login_retry_backoff_max_ms, as in the Java client.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from kwire.clock import NEVER_MS, Backoff, chance, monotonic_ms, wall_clock_ms
from kwire.config import ConsumerConfig, Login, OAuthToken
from kwire.errors import AuthenticationError, NoTokenError
from kwire.logs import part_logger
from kwire.network.login.arrival import ArrivedToken, arrived
from kwire.network.login.failures import TokenRequestError
from kwire.network.login.login_server import LoginServer
from kwire.network.login.refresh import MIN_PAUSE_MS, REFUSED_PAUSE_MS, RefreshRules
from kwire.network.login.sources import GiveToken, name_of_origin, token_giver
from kwire.network.login.token_file import FileTokens, TokenFile
from kwire.network.worker_threads import NoWorkerThreadError, worker_thread_needed

log = part_logger("login")

Ask = Callable[[], Awaitable[OAuthToken]]

# The machine may sleep, and its clock may be set. So the time until a token expires is computed again this often.
_LOOK_AGAIN_MS = 60_000.0
_LOOK_AT_FILE_MS = 10_000.0
# A provider may block for as long as it likes. A caller that waits for it does not.
_WAIT_MS = 60_000.0
# Time to resolve the login server's name, which its own timeouts do not cover.
_BESIDE_TIMEOUTS_MS = 5_000.0


class TokenLogin:
    """The tokens of one consumer: asks for them in the background before they expire, and keeps the last valid one.

    Args:
        ask: another way to get a token than the settings say; for tests.

    Raises:
        ConfigError: the settings say no way to get tokens, or one that needs a package that is not installed.
    """

    def __init__(self, config: ConsumerConfig, login: Login, *, ask: Ask | None = None) -> None:
        self._file: TokenFile | None = None
        if ask is None:
            giver = token_giver(config, login)
            ask = _in_worker_thread(giver)
            self._file = giver.file if isinstance(giver, FileTokens) else None
        self._ask = ask
        self._origin = name_of_origin(config)
        self._extensions = login.extensions
        self._rules = RefreshRules.of(config)
        self._backoff = Backoff(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms, chance)
        self._patience_ms = float(config.sasl_login_retry_backoff_max_ms)

        self._held: ArrivedToken | None = None
        self._came_at_ms = 0.0
        self._renew_at_ms = NEVER_MS  # on the wall clock, as ends of tokens are
        self._not_before_ms = 0.0  # of the next question
        self._failures = 0
        self._failing_since_ms = 0.0
        self._failure: TokenRequestError | None = None
        self._error: Callable[[], AuthenticationError] | None = None  # once it is certain
        self._is_wanted = False
        self._wanted = trio.Event()
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<TokenLogin {self._origin}, {'holds a token' if self._held is not None else 'no token'}>"

    async def run(self) -> None:
        """Renew tokens, for as long as the client lives."""
        while True:
            await self._wait_until_due()
            await self._renew()

    async def token(self) -> OAuthToken:
        """A token that is valid now; waits for the first, and for one that is renewed too late.

        Raises:
            AuthenticationError: the login server refuses the credentials.
            NoTokenError: there is no valid one, and asking has failed for long enough, or would fail again.
        """
        with trio.move_on_after(_WAIT_MS / 1000.0):
            while True:
                if (held := self._usable()) is not None:
                    return held
                if self._error is not None and monotonic_ms() < self._not_before_ms:
                    raise self._error()
                self._is_wanted = True
                self._wanted.set()
                await self._changed.wait()
        reason = self._failure or "it has not answered"
        raise NoTokenError(f"no token from {self._origin} within {_WAIT_MS / 1000:.0f} s: {reason}")

    # --- what is held ---------------------------------------------------------------------------------------------

    def _usable(self) -> OAuthToken | None:
        """What is held, if it can be used now."""
        if self._held is None:
            return None
        token = self._held.token
        if token.expires_at_ms is not None:
            return token if wall_clock_ms() < token.expires_at_ms else None
        # Nothing says when it expires, so it may still be valid: it is also used while asking for a newer one fails.
        is_young = monotonic_ms() < self._came_at_ms + self._rules.min_period_ms
        return token if is_young or self._failure is not None else None

    # --- the next question ----------------------------------------------------------------------------------------

    async def _wait_until_due(self) -> None:
        longest_ms = _LOOK_AGAIN_MS if self._file is None else _LOOK_AT_FILE_MS
        while (wait_ms := self._wait_ms()) > 0:
            self._wanted = trio.Event()
            with trio.move_on_after(min(wait_ms, longest_ms) / 1000.0):
                await self._wanted.wait()
            if self._file is not None and await _has_changed(self._file):
                return

    def _wait_ms(self) -> float:
        """How long it is until the next question, unless a token is wanted before."""
        due_in_ms = 0.0
        if self._failure is None:
            if self._held is not None and not self._is_wanted:
                due_in_ms = self._renew_at_ms - wall_clock_ms()
        elif self._failure.is_refused and not self._is_wanted and self._usable() is None:
            due_in_ms = NEVER_MS
        return max(due_in_ms, self._not_before_ms - monotonic_ms())

    async def _renew(self) -> None:
        try:
            self._take(await self._ask())
        except TokenRequestError as failure:
            self._note(failure)
        finally:
            # Each waiter looks at the result, and sets `_is_wanted` again if it needs another attempt.
            self._is_wanted = False
            before, self._changed = self._changed, trio.Event()
            before.set()

    def _take(self, token: OAuthToken) -> None:
        now_ms = wall_clock_ms()
        self._held = arrived(token, self._extensions, now_ms, self._origin)
        self._came_at_ms = monotonic_ms()
        self._not_before_ms = self._came_at_ms + MIN_PAUSE_MS
        self._failure, self._error, self._failures = None, None, 0
        end_ms = self._held.token.expires_at_ms
        self._renew_at_ms = NEVER_MS
        if end_ms is not None:
            self._renew_at_ms = self._rules.renew_at_ms(self._held.issued_at_ms, end_ms, now_ms, chance())
            log.info(
                "a token came from %s; it ends in %.0f s and is renewed in %.0f s",
                self._origin,
                (end_ms - now_ms) / 1000.0,
                (self._renew_at_ms - now_ms) / 1000.0,
            )

    def _note(self, failure: TokenRequestError) -> None:
        now_ms = monotonic_ms()
        if self._failure is None or self._failure.is_refused:  # an outage begins
            self._failing_since_ms, self._failures = now_ms, 0
        self._failures += 1
        failure.__context__ = None
        self._failure = failure.with_traceback(None)
        is_certain = failure.is_certain or now_ms - self._failing_since_ms >= self._patience_ms
        self._error = failure.for_user if is_certain else None
        self._not_before_ms = now_ms + max(self._pause_ms(failure, is_certain=is_certain), failure.pause_ms)
        has_token = self._usable() is not None
        is_told_otherwise = is_certain and not has_token  # token() raises it
        level = logging.WARNING if self._failures == 1 and not is_told_otherwise else logging.DEBUG
        log.log(level, "no new token%s: %s", "; the one before goes on being used" if has_token else "", failure)

    def _pause_ms(self, failure: TokenRequestError, *, is_certain: bool) -> float:
        if failure.is_refused:
            return REFUSED_PAUSE_MS
        if failure.is_certain:
            return max(self._patience_ms, MIN_PAUSE_MS)
        return max(self._backoff.delay_ms(self._failures), MIN_PAUSE_MS if is_certain else 0.0)


async def _has_changed(file: TokenFile) -> bool:
    """False if it cannot be looked at now: the next look tells."""
    with suppress(NoWorkerThreadError), worker_thread_needed("look at a file"):
        return await trio.to_thread.run_sync(file.has_changed)
    return False


def _in_worker_thread(giver: GiveToken) -> Ask:
    """The question in a thread: it may block for long, and must not stop the network."""
    # An abandoned question goes on in its thread. The next one waits for that: there is never more than one.
    limiter = trio.CapacityLimiter(1)
    bound_ms = NEVER_MS
    if isinstance(giver, LoginServer):
        bound_ms = giver.timeouts.connect_ms + giver.timeouts.read_ms + _BESIDE_TIMEOUTS_MS

    async def ask() -> OAuthToken:
        try:
            with trio.move_on_after(bound_ms / 1000.0), worker_thread_needed("ask for a token"):
                return await trio.to_thread.run_sync(giver, abandon_on_cancel=True, limiter=limiter)
        except NoWorkerThreadError as error:
            raise TokenRequestError(str(error)) from error
        raise TokenRequestError(f"the login server has not answered within {bound_ms:.0f} ms")

    return ask
