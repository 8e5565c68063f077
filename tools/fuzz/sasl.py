"""What is fuzzed of SASL: each answer of Kafka's own servers, damaged, at the place where it came in a golden talk.

Bare, as the exchange gets it, and in the SaslAuthenticate response that it comes in. A damaged answer may be refused.
An exchange that takes it is led on with what the real server said, and must not be content unless the answer still
means the same.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kwire.config.choices import SaslMechanism
from kwire.config.secret import Secret
from kwire.protocol import decode_message, encode_message
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kwire.protocol.sasl import OAuthBearerExchange, PlainExchange, SaslExchange, ScramExchange, ScramKeyCache

Named: TypeAlias = tuple[str, bytes, Callable[[bytes], object]]
VERSION = SaslAuthenticateResponse.max_version
Talk: TypeAlias = dict[str, Any]


class BelievedError(Exception):
    """An exchange is complete though the server has proven nothing. Never to be seen."""


def answers(talk: Talk) -> Iterator[Named]:
    """Every answer of the talk, in both forms: what to call it, its bytes, and what to do with damaged ones."""
    cache = ScramKeyCache()  # the undamaged salt's keys are derived once
    for place, answer in enumerate(bytes.fromhex(text) for text in talk["server"]):
        name = f"{talk['case']}, answer {place + 1}"

        def take(damaged: bytes, place: int = place) -> None:
            _take(talk, cache, place, damaged)

        yield name, answer, take

        def take_response(damaged: bytes, place: int = place) -> None:
            response = decode_message(SaslAuthenticateResponse, VERSION, damaged)
            if response.error_code == 0:
                _take(talk, cache, place, response.auth_bytes)

        response = SaslAuthenticateResponse(error_message=None, auth_bytes=answer)
        yield f"{name}, in its response", bytes(encode_message(response, VERSION)), take_response


def exchange_of(talk: Talk, cache: ScramKeyCache | None = None) -> SaslExchange:
    """The client of a golden talk, with the nonce that it drew there."""
    login = talk["login"]
    if talk["mechanism"] == "OAUTHBEARER":
        return OAuthBearerExchange(login["token"], login["extensions"])
    if talk["mechanism"] == "PLAIN":
        return PlainExchange(login["username"], Secret(login["password"]))
    return ScramExchange(
        SaslMechanism(talk["mechanism"]),
        login["username"],
        Secret(login["password"]),
        nonce=bytes.fromhex(talk["client"][0]).decode().rpartition(",r=")[2].partition(",")[0],
        keys=cache,
        extensions=login["extensions"],
    )


def _take(talk: Talk, cache: ScramKeyCache, place: int, damaged: bytes) -> None:
    """Lead an exchange to the place, give it the damaged answer, and then all that the real server said."""
    said = [bytes.fromhex(text) for text in talk["server"]]
    exchange = exchange_of(talk, cache)
    exchange.first()
    for answer in [*said[:place], damaged, *said[place + 1 :]]:
        if exchange.answer(answer) is None:
            break
    if exchange.is_complete and not _means_the_same(talk, place, said[place], damaged):
        raise BelievedError(f"{talk['case']}: {damaged!r}")


def _means_the_same(talk: Talk, place: int, answer: bytes, damaged: bytes) -> bool:
    """Whether a server that says this has proven as much as the one that said the other."""
    if talk["mechanism"] == "PLAIN":
        return True  # nothing that it says has a meaning
    if talk["mechanism"] == "OAUTHBEARER":
        return not damaged  # nothing to say against the token is all that a server can say for it
    if place == 0:
        return damaged == answer  # each byte is signed by the next answer
    return b64decode(damaged.partition(b",")[0].removeprefix(b"v=")) == b64decode(answer.removeprefix(b"v="))
