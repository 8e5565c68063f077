"""Settings of a registry that name files: what is wrong is told when the deserializer is made, with the setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire import InvalidArgumentError
from kwire.deserializers import AvroDeserializer

URL = "https://registry.example.net"


def test_a_file_that_is_not_there_is_named_with_its_setting(tmp_path: Path) -> None:
    """A FileNotFoundError, of no file."""
    gone = str(tmp_path / "ca.pem")
    expected = rf"^the settings of the schema registry: ssl\.ca\.location {gone}: .*No such file"
    with pytest.raises(InvalidArgumentError, match=expected):
        AvroDeserializer({"url": URL, "ssl.ca.location": gone})


def test_of_two_files_the_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    there, gone = tmp_path / "there.pem", tmp_path / "gone.pem"
    there.write_text("")
    with pytest.raises(InvalidArgumentError, match=r"registry: ssl\.key\.location \S*gone\.pem: ") as caught:
        AvroDeserializer({"url": URL, "ssl.certificate.location": str(there), "ssl.key.location": str(gone)})
    assert "ssl.certificate" not in str(caught.value)


def test_a_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    with pytest.raises(InvalidArgumentError, match=r"registry: ssl\.ca\.location \S*bad\.pem: "):
        AvroDeserializer({"url": URL, "ssl.ca.location": str(bad)})


def test_a_file_of_the_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    with pytest.raises(InvalidArgumentError, match=r"registry: SSL_CERT_FILE \S*gone\.pem: "):
        AvroDeserializer(URL)
