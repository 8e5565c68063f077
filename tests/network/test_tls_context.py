"""Certificates and keys from the settings: what is taken, what is refused with a reason, and that they are renewed."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from kwire.config import ConsumerConfig
from kwire.errors import ConfigError
from kwire.network.tls_context import TlsContexts

CA = trustme.CA()
CLIENT = CA.issue_cert("client.example")
CA_TEXT = CA.cert_pem.bytes().decode()
CHAIN = CLIENT.cert_chain_pems[0].bytes().decode()
KEY = load_pem_private_key(CLIENT.private_key_pem.bytes(), None)
PASSWORD = "hush"


def key_text(password: str | None = None) -> str:
    """The client's key in PKCS#8, encrypted if there is a password."""
    from cryptography.hazmat.primitives.serialization import NoEncryption

    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def config(**settings: object) -> ConsumerConfig:
    return ConsumerConfig.of({"bootstrap.servers": "localhost:9093", "security.protocol": "SSL", **settings})


def contexts(**settings: object) -> TlsContexts:
    return TlsContexts(config(**settings))


def has_own(made: TlsContexts) -> bool:
    return made.own_certificate is not None


@pytest.mark.parametrize("password", [None, PASSWORD])
def test_a_key_store_is_one_pem_file_with_key_and_chain_in_any_order(tmp_path: Path, password: str | None) -> None:
    for name, text in {"first": key_text(password) + CHAIN, "last": CHAIN + key_text(password)}.items():
        path = tmp_path / f"{name}.pem"
        path.write_text(text)
        assert has_own(contexts(ssl_keystore_location=path, ssl_key_password=password))


@pytest.mark.parametrize("password", [None, PASSWORD])
def test_key_and_chain_may_be_texts(password: str | None) -> None:
    made = contexts(
        ssl_keystore_key=key_text(password), ssl_keystore_certificate_chain=CHAIN, ssl_key_password=password
    )

    assert made.own_certificate == ssl.PEM_cert_to_DER_cert(CHAIN)


def test_authorities_are_those_of_the_trust_store_alone_or_else_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CA_TEXT)

    for settings in ({"ssl_truststore_location": tmp_path / "ca.pem"}, {"ssl_truststore_certificates": CA_TEXT}):
        assert len(contexts(**settings).current().get_ca_certs()) == 1
    assert contexts().current().verify_mode is ssl.CERT_REQUIRED


def test_versions_and_the_check_of_names_are_as_the_settings_say() -> None:
    usual = contexts().current()
    strict = contexts(ssl_enabled_protocols="TLSv1.3", ssl_endpoint_identification_algorithm="").current()

    assert (usual.minimum_version, usual.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert usual.check_hostname
    assert (strict.minimum_version, strict.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    assert not strict.check_hostname
    assert strict.verify_mode is ssl.CERT_REQUIRED


def test_a_context_of_the_user_is_used_as_it_is() -> None:
    own = ssl.create_default_context()

    assert contexts(ssl_context=own).current() is own


Files = Callable[[Path], Path]


def pkcs12(folder: Path) -> Path:
    path = folder / "store.p12"
    path.write_bytes(serialize_key_and_certificates(b"client", None, None, None, BestAvailableEncryption(b"x" * 8)))
    return path


def holding(data: bytes) -> Files:
    def make(folder: Path) -> Path:
        path = folder / "store"
        path.write_bytes(data)
        return path

    return make


def missing(folder: Path) -> Path:
    return folder / "missing.pem"


def unreadable(folder: Path) -> Path:
    return folder  # a folder cannot be read as a file, not even by root


@pytest.mark.parametrize(
    ("setting", "make", "said"),
    [
        ("ssl_truststore_location", missing, "cannot be read: No such file or directory"),
        ("ssl_truststore_location", unreadable, "cannot be read: Is a directory"),
        ("ssl_truststore_location", holding(b"\xfe\xed\xfe\xed\0\0\0\2"), "is a JKS store; .* keytool -importkeystore"),
        ("ssl_truststore_location", holding(b"\x30\x82\x01\x02"), "perhaps a PKCS12 store; .* openssl pkcs12 -in"),
        ("ssl_truststore_location", holding(b"hello"), "is no PEM file"),
        ("ssl_truststore_location", holding(key_text().encode()), "has no certificate that can be read"),
        (
            "ssl_truststore_location",
            holding(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "has no certificate that can be read",
        ),
        ("ssl_keystore_location", missing, "cannot be read"),
        ("ssl_keystore_location", holding(CHAIN.encode()), "has no private key"),
        ("ssl_keystore_location", holding(key_text().encode()), "has no certificate"),
        ("ssl_keystore_location", holding(key_text(PASSWORD).encode() + CHAIN.encode()), "give ssl_key_password"),
        (
            "ssl_keystore_location",
            holding(key_text().encode() + CA_TEXT.encode()),
            "cannot be used: key values mismatch",
        ),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_when_the_consumer_is_made(
    tmp_path: Path, setting: str, make: Files, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        contexts(**{setting: make(tmp_path)})


def test_a_wrong_password_is_told_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="ssl_key_password is wrong") as caught:
        contexts(
            ssl_keystore_key=key_text(PASSWORD), ssl_keystore_certificate_chain=CHAIN, ssl_key_password="not-it-at-all"
        )

    assert "not-it-at-all" not in repr(caught.value)


def test_the_next_connection_uses_the_files_as_they_are_then(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text(CA_TEXT)
    made = contexts(ssl_truststore_location=trusted)
    before = made.current()
    assert made.current() is before

    replace(trusted, CA_TEXT + trustme.CA().cert_pem.bytes().decode())
    after = made.current()

    assert len(after.get_ca_certs()) == 2
    assert made.current() is after
    caplog.clear()


def test_files_that_cannot_be_used_leave_the_ones_before_in_use_until_they_are_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "client.pem"
    store.write_text(key_text() + CHAIN)
    made = contexts(ssl_keystore_location=store)
    before = made.current()

    replace(store, key_text())
    half_written = made.current()
    replace(store, key_text() + CHAIN)

    assert half_written is before
    assert "the ones before stay in use: ssl_keystore_location has no certificate" in caplog.text
    assert made.current() is not before


NAME = "    friendlyName: Müller GmbH\n"


def test_what_openssl_writes_beside_the_blocks_may_be_of_any_alphabet(tmp_path: Path) -> None:
    ca, store = tmp_path / "ca.pem", tmp_path / "client.pem"
    ca.write_text(NAME + CA_TEXT, encoding="utf-8")
    store.write_text(NAME + key_text() + NAME + CHAIN, encoding="latin-1")

    for settings in (
        {"ssl_truststore_location": ca, "ssl_keystore_location": store},
        {
            "ssl_truststore_certificates": NAME + CA_TEXT,
            "ssl_keystore_key": NAME + key_text(),
            "ssl_keystore_certificate_chain": NAME + CHAIN,
        },
    ):
        made = contexts(**settings)
        assert len(made.current().get_ca_certs()) == 1
        assert made.own_certificate == ssl.PEM_cert_to_DER_cert(CHAIN)


def test_a_file_that_is_replaced_by_one_with_a_name_of_any_alphabet_is_used(tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text(CA_TEXT)
    made = contexts(ssl_truststore_location=trusted)

    replace(trusted, NAME + CA_TEXT + trustme.CA().cert_pem.bytes().decode())

    assert len(made.current().get_ca_certs()) == 2


def test_what_looks_like_a_certificate_within_a_line_is_none(tmp_path: Path) -> None:
    store = tmp_path / "client.pem"
    store.write_text("# -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----\n" + key_text() + CHAIN)

    assert contexts(ssl_keystore_location=store).own_certificate == ssl.PEM_cert_to_DER_cert(CHAIN)


def test_a_password_that_is_too_long_for_openssl_is_refused_as_a_wrong_one() -> None:
    settings = {"ssl_keystore_key": key_text(PASSWORD), "ssl_keystore_certificate_chain": CHAIN}

    with pytest.raises(ConfigError, match="ssl_key_password is wrong"):
        contexts(**settings, ssl_key_password="x" * 2000)


def test_whatever_goes_wrong_while_files_are_read_again_leaves_the_ones_before_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "client.pem"
    store.write_text(key_text() + CHAIN)
    made = contexts(ssl_keystore_location=store)
    before = made.current()

    def no_descriptor(name: str) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)

    monkeypatch.setattr(os, "memfd_create", no_descriptor, raising=False)
    replace(store, CHAIN + key_text())

    assert made.current() is before
    assert "the ones before stay in use" in caplog.text


def replace(path: Path, text: str) -> None:
    """As tools that renew certificates do it: another file is moved to the same name."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)
