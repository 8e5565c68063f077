"""Users, ACLs and TLS of a kfake cluster, in the form that `program/main.go` reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
Resource: TypeAlias = Literal["topic", "group", "cluster", "transactional_id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """A rule about what a user may do, or (`allow=False`) may not do. `operation` is Kafka's: "read", "describe",
    "all", ..."""

    resource: Resource
    name: str
    operation: str
    prefixed: bool = False
    allow: bool = True

    def to_json(self) -> dict[str, object]:
        return {
            "resource": self.resource,
            "name": self.name,
            "operation": self.operation,
            "prefixed": self.prefixed,
            "allow": self.allow,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user that may log in. A superuser may do everything; others may do what their `acls` say, if the cluster
    authorizes."""

    name: str
    password: str = field(repr=False)
    mechanism: Mechanism = "PLAIN"
    superuser: bool = False
    acls: Sequence[Acl] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "mechanism": self.mechanism,
            "name": self.name,
            "password": self.password,
            "superuser": self.superuser,
            "acls": [acl.to_json() for acl in self.acls],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files for TLS of the brokers, in PEM. With `client_ca`, clients have to show a certificate of that
    authority."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def to_json(self) -> dict[str, object]:
        ca = "" if self.client_ca is None else str(self.client_ca.absolute())
        return {"certificate": str(self.certificate.absolute()), "key": str(self.key.absolute()), "client_ca": ca}
