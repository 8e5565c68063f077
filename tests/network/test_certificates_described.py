"""What is said of certificates in error messages, also of damaged ones."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from kwire.network.certificates import describe

CERTIFICATE = trustme.CA(organization_name="Our CA").issue_cert(
    "kafka-1.example",
    "10.0.0.1",
    "::1",
    common_name="kafka-1",
    organization_name="Our brokers",
    not_before=datetime(2026, 1, 2, tzinfo=UTC),
    not_after=datetime(2051, 3, 4, tzinfo=UTC),
)
DER = ssl.PEM_cert_to_DER_cert(CERTIFICATE.cert_chain_pems[0].bytes().decode())


def test_a_certificate_is_told_by_whose_it_is_who_issued_it_when_it_is_valid_and_for_whom() -> None:
    said = describe(DER)

    assert "O=Our brokers" in said
    assert "CN=kafka-1" in said
    assert "issued by O=Our CA" in said
    assert said.endswith("valid from 2026-01-02 to 2051-03-04, for kafka-1.example, 10.0.0.1, ::1")


def test_of_many_names_the_first_are_told() -> None:
    many = trustme.CA().issue_cert(*(f"broker-{i}.example" for i in range(20)))
    said = describe(ssl.PEM_cert_to_DER_cert(many.cert_chain_pems[0].bytes().decode()))

    assert said.endswith("broker-4.example, ...")


@pytest.mark.parametrize(
    "data", [b"", b"\x30", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x30\x01", DER[:-1]]
)
def test_one_that_cannot_be_read_is_told_as_that(data: bytes) -> None:
    assert describe(data) == "one that cannot be read"


@given(at=st.integers(0, len(DER) - 1), value=st.integers(0, 255))
def test_whatever_a_stranger_shows_is_told_in_one_line_and_raises_nothing(at: int, value: int) -> None:
    damaged = bytearray(DER)
    damaged[at] = value

    assert describe(bytes(damaged)).isprintable()
