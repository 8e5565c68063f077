"""Certificates for tests: what they say, how long they hold, and that their files go away."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest

from kwire.testing.certificates import CertificateAuthority


def greet(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str | None:
    """The TLS version that both come to. Raises: ssl.SSLError, if the client does not trust the server."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    with ours:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with client.wrap_socket(ours, server_hostname=name) as wrapped:
                return wrapped.version()
        finally:
            ours.close()
            thread.join()


def test_who_trusts_the_authority_trusts_its_servers_at_their_names_alone() -> None:
    with CertificateAuthority() as authority:
        client = ssl.create_default_context(cafile=authority.path)
        server = authority.server_context("kafka.example", "127.0.0.1")
        assert greet(server, client, "kafka.example") == "TLSv1.3"
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            greet(server, client, "other.example")
        with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
            greet(server, ssl.create_default_context(cadata=CertificateAuthority().certificate), "kafka.example")


def test_a_certificate_holds_as_long_as_it_says() -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    with CertificateAuthority() as authority:
        expired = authority.issue("kafka.example", not_before=yesterday - timedelta(days=1), not_after=yesterday)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(expired.path)
        client = ssl.create_default_context(cadata=authority.certificate)
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            greet(server, client, "kafka.example")


def test_keys_may_be_encrypted_and_are_for_the_owner_alone() -> None:
    with CertificateAuthority() as authority:
        issued = authority.issue(common_name="alice", key_password="hush")
        assert "BEGIN ENCRYPTED PRIVATE KEY" in issued.key
        assert "BEGIN PRIVATE KEY" in authority.issue(common_name="bob").key
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(issued.chain_path, issued.key_path, "hush")
        assert stat.S_IMODE(issued.key_path.stat().st_mode) == 0o600
        assert "PRIVATE" not in repr(issued)
    assert not issued.path.exists()


def test_files_go_when_nobody_has_the_authority_any_more() -> None:
    path = CertificateAuthority().path
    assert not path.exists()
