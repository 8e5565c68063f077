"""A consumer that its settings do not allow: the error is clear, and neither it nor what it passed shows a secret."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire import AsyncConsumer, Consumer
from kwire.errors import ConfigError, InternalError, NoThreadError
from kwire.network.thread import _failure
from kwire.testing.certificates import CertificateAuthority

OAUTH: dict[str, object] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
SECRET = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEH"
KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "name",
    [
        "ssl_keystore_location",
        "ssl_truststore_location",
        "ssl_keyfile",
        "ssl_certfile",
        "sasl_oauthbearer_assertion_file",
    ],
)
@pytest.mark.parametrize(
    "text", [KEY, KEY.replace("\n", r"\n"), KEY.replace("\n", " ")], ids=["lines", "n", "one line"]
)
def test_a_key_in_the_place_of_a_path_is_not_shown(name: str, text: str) -> None:
    """As it happens with environment variables. The whole key stood in the error."""
    with pytest.raises(ConfigError, match="the path of a file is wanted, and this looks like its content") as caught:
        Consumer(bootstrap_servers="localhost:1", security_protocol="SSL", config={name: text})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["sasl_oauthbearer_token_endpoint_url", "ssl_keystore_type", "bootstrap_servers"])
@pytest.mark.parametrize("text", [KEY, f"eyJhbGciOiJSUzI1NiJ9.{SECRET}.signature"], ids=["key", "token"])
def test_a_key_or_a_token_in_any_wrong_setting_is_not_shown(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}=<secret>: this looks like a key, or a token; valid: ") as caught:
        Consumer(config={"bootstrap_servers": "localhost:1", **OAUTH, name: text})
    assert SECRET.upper() not in str(caught.value).upper()


def test_nor_is_a_password_in_a_servers_address() -> None:
    with pytest.raises(ConfigError, match="holds no user: give sasl_username") as caught:
        Consumer(bootstrap_servers="alice:hunter2@broker:9092")
    assert "hunter2" not in str(caught.value)


def test_passwords_are_not_in_what_frames_of_kwire_hold() -> None:
    """Tools that report errors send the variables of each frame, and what kwire was given was among these."""
    with pytest.raises(ConfigError, match="fetch_min_bytes") as caught:
        Consumer(bootstrap_servers="localhost:1", sasl_password="hunter2", fetch_min_bytes=-5)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    of_kwire = [frame for frame in told.stack if "/kwire/" in frame.filename and "/tests/" not in frame.filename]
    assert of_kwire
    assert not [frame for frame in of_kwire if "hunter2" in str(frame.locals)]


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_one_that_could_not_be_made_can_be_shown(kind: type[Consumer[bytes, bytes]], tmp_path: Path) -> None:
    """Its repr raised, over which the report of the error was lost."""
    half_made = kind.__new__(kind)
    assert repr(half_made) == f"<{kind.__name__} that could not be made>"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda text: text.replace("\n", " "), "one line, as in a properties file"),
        (lambda text: text.replace("\n", r"\n"), "a backslash and an n"),
        (lambda text: "\ufeff" + text.replace("\n", "\r\n"), "as Windows writes it"),
    ],
)
def test_pem_text_may_be_written_otherwise(change: Callable[[str], str], what: str) -> None:
    with CertificateAuthority() as authority:
        own = authority.issue("client")
        Consumer(
            bootstrap_servers="localhost:1",
            security_protocol="SSL",
            ssl_truststore_certificates=change(authority.certificate),
            ssl_keystore_certificate_chain=change(own.chain),
            ssl_keystore_key=change(own.key),
        ).close(0)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_few_files_are_no_bug_of_kwire(code: int) -> None:
    error = _failure(ExceptionGroup("", [OSError(code, "Too many open files")]))
    assert isinstance(error, NoThreadError)
    assert "Too many open files; raise `ulimit -n`" in str(error)
    assert isinstance(_failure(OSError(errno.EIO, "broken")), InternalError)
