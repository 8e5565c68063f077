"""The principal of a client's certificate: its distinguished name, as Java writes it (RFC 2253)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kwire.testing.cluster.request_context import ANONYMOUS

_SHORT = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL = re.compile(r'([,+"\\<>;]|^[ #]| $)')


def principal_of(certificate: Mapping[str, object] | None) -> str:
    """The principal of what `ssl.SSLObject.getpeercert` returns; ANONYMOUS without a certificate."""
    subject = (certificate or {}).get("subject")
    if not isinstance(subject, tuple) or not subject:
        return ANONYMOUS
    names = (
        "+".join(f"{_SHORT.get(kind, kind)}={_SPECIAL.sub(_escaped, text)}" for kind, text in part) for part in subject
    )
    return f"User:{','.join(reversed(list(names)))}"


def _escaped(special: re.Match[str]) -> str:
    return f"\\{special[0]}"
