"""SCRAM: the examples of the RFCs, and servers that do not know the password or do not follow the mechanism."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from kwire.config.choices import SaslMechanism
from kwire.config.secret import Secret
from kwire.errors import AuthenticationError, IllegalSaslStateError, InternalError, SaslAuthenticationError
from kwire.protocol.sasl import ScramExchange, ScramKeyCache, scram_keys
from kwire.protocol.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS
from kwire.protocol.sasl.scram_keys import ScramKeys, derive_keys

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={SERVER_NONCE},s={SALT},i=4096"
CLIENT_FINAL = f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(username: str = "user", password: str = "pencil", keys: ScramKeyCache | None = None) -> ScramExchange:
    return ScramExchange(SaslMechanism.SCRAM_SHA_256, username, Secret(password), nonce=NONCE, keys=keys)


def begun() -> ScramExchange:
    scram = exchange()
    scram.first()
    return scram


def halfway() -> ScramExchange:
    scram = begun()
    scram.answer(SERVER_FIRST.encode())
    return scram


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.first() == f"n,,n=user,r={NONCE}".encode()
    assert not scram.is_complete
    assert scram.answer(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    assert not scram.is_complete
    assert scram.answer(SERVER_FINAL.encode()) is None
    assert scram.is_complete


def test_the_example_of_rfc_5802() -> None:
    scram = ScramExchange("SCRAM-SHA-1", "user", Secret("pencil"), nonce="fyko+d2lbbFgONRv9qkxdawL")
    assert scram.first() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    answer = scram.answer(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096")
    assert answer == b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert scram.answer(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None
    assert scram.is_complete


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", "not r="),
        ("hello", "not r="),
        (f"s={SALT},r={SERVER_NONCE},i=4096", "not r="),
        (f"r={SERVER_NONCE},i=4096,s={SALT}", "not r="),
        (f"r={SERVER_NONCE},s={SALT}", "not r="),
        (f"r={SERVER_NONCE},s={SALT},i=0004096", "not r="),
        (f"r={SERVER_NONCE},s={SALT},i=-4096", "not r="),
        (f"r={SERVER_NONCE},s={SALT},i=4096,", "not r="),
        (f"{SERVER_FIRST}\n", "not r="),
        (f"m=x,{SERVER_FIRST}", "an extension"),
        (f"r={NONCE},s={SALT},i=4096", "nonce"),
        (f"r=x{SERVER_NONCE},s={SALT},i=4096", "nonce"),
        (f"r={NONCE[:-1]},s={SALT},i=4096", "nonce"),
        (f"r={SERVER_NONCE},s=,i=4096", "salt is empty"),
        (f"r={SERVER_NONCE},s=W22*,i=4096", "Base64"),
        (f"r={SERVER_NONCE},s=W22Za,i=4096", "Base64"),
        (f"r={SERVER_NONCE},s=Wäää,i=4096", "Base64"),
        (f"r={SERVER_NONCE},s={SALT},i={MIN_ITERATIONS - 1}", "below the 4096"),
        (f"r={SERVER_NONCE},s={SALT},i={MAX_ITERATIONS + 1}", "above the limit"),
        (f"r={SERVER_NONCE},s={SALT},i=" + "9" * 8_000, "above the limit"),
    ],
)
def test_a_first_message_that_is_not_as_it_should_be_ends_the_exchange(message: str, reason: str) -> None:
    scram = begun()
    with pytest.raises(SaslAuthenticationError, match=reason):
        scram.answer(message.encode())
    assert not scram.is_complete
    with pytest.raises(IllegalSaslStateError):
        scram.answer(SERVER_FIRST.encode())
    assert not scram.is_complete


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SaslAuthenticationError, match="UTF-8"):
        begun().answer(b"r=\xff\xfe")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", "neither v="),
        ("v=", "neither v="),
        ("v=!", "Base64"),
        (SERVER_FINAL.replace("6", "7", 1), "may be an impostor"),
        ("v=6rri", "may be an impostor"),
        (f"{SERVER_FINAL},e=other-error", None),
        ("e=unknown-user", "refuses the credentials: unknown-user; check user name"),
        ("e=\x1b[2Jinvalid-proof", r"refuses the credentials: \\x1b\[2Jinvalid-proof"),
        (SERVER_FIRST, "neither v="),
    ],
)
def test_the_broker_has_to_prove_that_it_knows_the_password(message: str, reason: str | None) -> None:
    scram = halfway()
    if reason is None:  # an extension behind a good signature is allowed, whatever it is called
        assert scram.answer(message.encode()) is None
        assert scram.is_complete
        return
    with pytest.raises(SaslAuthenticationError, match=reason):
        scram.answer(message.encode())
    assert not scram.is_complete
    with pytest.raises(IllegalSaslStateError):  # and the right one comes too late
        scram.answer(SERVER_FINAL.encode())
    assert not scram.is_complete


def test_another_password_makes_another_proof_and_does_not_take_the_signature() -> None:
    scram = exchange(password="pencil2")
    scram.first()
    assert scram.answer(SERVER_FIRST.encode()) != CLIENT_FINAL.encode()
    with pytest.raises(SaslAuthenticationError, match="impostor"):
        scram.answer(SERVER_FINAL.encode())


def test_extensions_behind_the_iterations_are_part_of_what_is_signed() -> None:
    scram = begun()
    first = f"{SERVER_FIRST},x=y"
    client_final = scram.answer(first.encode())
    assert client_final is not None
    auth_message = f"n=user,r={NONCE},{first},c=biws,r={SERVER_NONCE}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", base64.b64decode(SALT), 4096)
    signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), auth_message, "sha256")
    assert scram.answer(b"v=" + base64.b64encode(signature)) is None
    assert scram.is_complete


def test_signs_of_the_notation_are_escaped_in_the_user_name() -> None:
    assert exchange("a,b=c=2C").first() == f"n,,n=a=2Cb=3Dc=3D2C,r={NONCE}".encode()
    assert exchange("größe").first() == f"n,,n=größe,r={NONCE}".encode()


def test_a_delegation_token_is_announced_behind_the_nonce() -> None:
    scram = ScramExchange(
        SaslMechanism.SCRAM_SHA_512, "id", Secret("hmac"), nonce=NONCE, extensions={"tokenauth": "true"}
    )
    assert scram.first() == f"n,,n=id,r={NONCE},tokenauth=true".encode()


@pytest.mark.parametrize("username", ["", "\udcff"])
def test_user_names_that_cannot_be_sent_are_refused_before_anything_is(username: str) -> None:
    with pytest.raises(SaslAuthenticationError, match="user name"):
        exchange(username)


@pytest.mark.parametrize("nonce", ["", "a,b", "a b", "ä"])
def test_a_nonce_is_printable_and_has_no_comma(nonce: str) -> None:
    with pytest.raises(InternalError):
        ScramExchange(SaslMechanism.SCRAM_SHA_256, "user", Secret("pencil"), nonce=nonce)


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, int]]:
    """The salts and counts of iterations that keys were derived with."""
    found: list[tuple[bytes, int]] = []

    def derive(mechanism: str, password: Secret, salt: bytes, iterations: int) -> ScramKeys:
        found.append((salt, iterations))
        return derive_keys(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram_keys, "derive_keys", derive)
    return found


def test_keys_are_derived_once_for_a_salt_and_the_oldest_go(derived: list[tuple[bytes, int]]) -> None:
    keys = ScramKeyCache()
    first = keys.get("SCRAM-SHA-256", Secret("pencil"), b"salt", 4096)
    assert keys.get("SCRAM-SHA-256", Secret("pencil"), b"salt", 4096) is first
    others = [
        keys.get("SCRAM-SHA-512", Secret("pencil"), b"salt", 4096),
        keys.get("SCRAM-SHA-256", Secret("other"), b"salt", 4096),
        keys.get("SCRAM-SHA-256", Secret("pencil"), b"pepper", 4096),
        keys.get("SCRAM-SHA-256", Secret("pencil"), b"salt", 4097),
    ]
    assert len({id(each) for each in [first, *others]}) == 5
    for number in range(ScramKeyCache.MAX_ENTRIES):
        keys.get("SCRAM-SHA-256", Secret("pencil"), bytes([number]), 4096)
    before = len(derived)
    assert keys.get("SCRAM-SHA-256", Secret("pencil"), b"\0", 4096) is not first
    assert len(derived) == before
    again = keys.get("SCRAM-SHA-256", Secret("pencil"), b"salt", 4096)
    assert again is not first
    assert again == first


def test_the_next_exchange_finds_the_keys_of_the_first_one(derived: list[tuple[bytes, int]]) -> None:
    keys = ScramKeyCache()
    for _ in range(3):
        scram = exchange(keys=keys)
        scram.first()
        assert scram.answer(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    assert derived == [(base64.b64decode(SALT), 4096)]


def test_nothing_is_said_out_of_turn() -> None:
    scram = exchange()
    with pytest.raises(IllegalSaslStateError):
        scram.answer(SERVER_FIRST.encode())
    scram = begun()
    with pytest.raises(InternalError):
        scram.first()
    scram = halfway()
    scram.answer(SERVER_FINAL.encode())
    with pytest.raises(AuthenticationError):
        scram.answer(SERVER_FINAL.encode())
