"""`oauth_cb` as a token source of kwire."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from kwire.clock import wall_clock_ms
from kwire.compat.confluent_kafka.kafka_error import KafkaError, exception
from kwire.config import OAuthToken

OnOAuth: TypeAlias = "Callable[[str | None], tuple[object, ...]]"

_RETURNS = (
    "it has to return the token, the end of its life in seconds since 1970 and, if wanted, principal and extensions"
)


class CallbackTokens:
    """A `TokenSource` of kwire, which asks for a token in a thread of its own, before the last one expires.

    Args:
        function: `oauth_cb`.
        text: `sasl.oauthbearer.config`, the argument of `oauth_cb`.
    """

    def __init__(self, function: OnOAuth, text: str | None) -> None:
        self._function, self._text = function, text
        self._first: OAuthToken | None = None

    def ask_first(self) -> None:
        """Get the first token, in the program's own thread.

        Raises:
            KafkaException: There is none, or it has expired.
        """
        try:
            self._first = self._asked()
        except Exception as error:
            raise exception(
                KafkaError.SASL_AUTHENTICATION_FAILED, f"no token from oauth_cb: {type(error).__name__}: {error}"
            ) from error
        if (self._first.expires_at_ms or 0.0) <= wall_clock_ms():
            raise exception(KafkaError.SASL_AUTHENTICATION_FAILED, "the token from oauth_cb has expired before it came")

    def token(self) -> OAuthToken:
        first, self._first = self._first, None
        return first or self._asked()

    def _asked(self) -> OAuthToken:
        match cast("object", self._function(self._text)):
            case (str(value), int() | float() as end_s, *rest) if len(rest) <= 2:
                extensions = rest[1] if len(rest) == 2 else None  # in front of them the principal, which nobody is sent
                return OAuthToken(value, end_s * 1000.0, cast("dict[str, str]", extensions) or {})
            case _:
                raise TypeError(_RETURNS)
