"""PEM text as it comes out of files, environment variables and properties files."""

from __future__ import annotations

import pytest

from kwire.config.tls_values import tidy_pem

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\nAAAA\n-----END CERTIFICATE-----\n"
OLD_KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nMIIE\nAAAA\n"
    "-----END RSA PRIVATE KEY-----\n"
)


@pytest.mark.parametrize("text", [CERTIFICATE, CERTIFICATE * 2, f"# of Müller\n{CERTIFICATE}", OLD_KEY])
def test_what_is_in_lines_stays_as_it_is(text: str) -> None:
    assert tidy_pem(text) == text


@pytest.mark.parametrize("end", [" ", r"\n", r"\r\n"])
@pytest.mark.parametrize("count", [1, 2])
def test_one_line_becomes_several(end: str, count: int) -> None:
    tidied = tidy_pem((CERTIFICATE * count).replace("\n", end))
    assert [line for line in tidied.split("\n") if line] == (CERTIFICATE * count).splitlines()


@pytest.mark.parametrize("end", [r"\n", r"\r\n"])
def test_headers_of_an_old_key_keep_their_lines(end: str) -> None:
    """The key was called damaged, or its password wrong."""
    assert tidy_pem(OLD_KEY.replace("\n", end)).strip() == OLD_KEY.strip()
