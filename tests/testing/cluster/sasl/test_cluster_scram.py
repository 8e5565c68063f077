"""SCRAM on the broker's side: the examples of the RFCs, and everything a client may get wrong."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest

from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError, Identity
from kwire.testing.cluster.sasl.scram import ScramCredential, ScramExchange

# RFC 7677, 3: user "user", password "pencil".
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

CREDENTIALS = {"user": ScramCredential.of("pencil", digest="sha256", salt=SALT, iterations=4096)}


def exchange() -> ScramExchange:
    return ScramExchange("sha256", CREDENTIALS.get, SERVER_NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.step(FIRST).challenge == SERVER_FIRST
    last = scram.step(FINAL)
    assert (last.challenge, last.identity) == (SERVER_FINAL, Identity(name="user"))


@pytest.mark.parametrize(
    "first",
    [
        b"n,,n=nobody,r=abc",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user",
        b"n,,r=abc",
        b"",
        b"\xff\xfe",
    ],
)
def test_a_greeting_that_is_wrong_is_refused_without_a_reason(first: bytes) -> None:
    with pytest.raises(AuthenticationRefusedError, match=r"^$"):
        exchange().step(first)


def test_to_act_for_somebody_else_is_refused() -> None:
    with pytest.raises(AuthenticationRefusedError, match="authorization id"):
        exchange().step(b"n,a=root,n=user,r=abc")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),  # the first message said n,, and not y,,
        (b"r=rOpr", b"r=ropr"),
        (b"%hvY", b"%hvZ"),
        (b"p=dHzb", b"p=dHzc"),
        (b"p=dHzb", b"p=AAAA"),
        (b"ndVQ=", b"ndV"),
        (b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b"p=" + b64encode(b"short")),
        (b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b""),
    ],
)
def test_a_proof_that_is_wrong_is_refused_without_a_reason(old: bytes, new: bytes) -> None:
    scram = exchange()
    scram.step(FIRST)
    assert FINAL.replace(old, new) != FINAL
    with pytest.raises(AuthenticationRefusedError, match=r"^$"):
        scram.step(FINAL.replace(old, new))


def test_names_are_unescaped() -> None:
    asked: list[str] = []

    def credential_of(name: str) -> None:
        asked.append(name)

    with pytest.raises(AuthenticationRefusedError):
        ScramExchange("sha512", credential_of, SERVER_NONCE).step(b"n,,n=a=2Cb=3Dc,r=abc")
    assert asked == ["a,b=c"]


def test_no_secret_is_in_what_is_printed() -> None:
    assert repr(CREDENTIALS["user"]) == "ScramCredential(iterations=4096)"
