"""Access control: a list of rules, of which the newest that matches a request decides.

Operations, resources and what an operation includes are Kafka's (KIP-11). The order is not: in Kafka a denial always
wins, and here the newest rule does, so that a test can give back what it has taken away. `Cluster.allow` and
`Cluster.deny` add rules, handlers ask by way of their `Call`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kwire.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERYBODY = "User:*"
WILDCARD = "*"


class Operation(IntEnum):
    """Kafka's AclOperation; the numbers are those of the wire."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


class Resource(IntEnum):
    """Kafka's ResourceType."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


_INCLUDES = {
    Operation.READ: Operation.DESCRIBE,
    Operation.WRITE: Operation.DESCRIBE,
    Operation.DELETE: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}
"""Operations that include another one. A denial does not: a client that may not read may still describe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """One rule. A `name` that ends with a star matches all names that begin with the rest."""

    is_allowed: bool
    resource: Resource
    name: str
    operation: Operation = Operation.ALL
    principal: str = EVERYBODY

    def __post_init__(self) -> None:
        if not self.name or WILDCARD in self.name[:-1]:
            raise InvalidArgumentError(f"a rule is about a name, a prefix as in 'orders-*', or '*', not {self.name!r}")
        if not self.principal.startswith("User:"):
            raise InvalidArgumentError(f"principals look like 'User:alice', not {self.principal!r}")

    def is_about(self, principal: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the rule matches this operation on this resource."""
        is_named = name.startswith(self.name[:-1]) if self.name.endswith(WILDCARD) else name == self.name
        is_meant = self.operation in (Operation.ALL, operation) or (
            self.is_allowed and _INCLUDES.get(self.operation) is operation
        )
        return resource is self.resource and is_named and is_meant and self.principal in (EVERYBODY, principal)


class AccessRules:
    """The rules of a cluster.

    Args:
        allowed_otherwise: Whether operations that no rule matches are allowed.
    """

    def __init__(self, *, allowed_otherwise: bool = True) -> None:
        self._allowed_otherwise = allowed_otherwise
        self._rules: list[AccessRule] = []

    def add(self, rule: AccessRule) -> None:
        """Add the newest rule: it decides about everything that it matches."""
        self._rules.append(rule)

    def allows(self, principal: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the principal may do this operation on this resource."""
        deciding = (rule for rule in reversed(self._rules) if rule.is_about(principal, operation, resource, name))
        found = next(deciding, None)
        return self._allowed_otherwise if found is None else found.is_allowed


def operation_named(name: str) -> Operation:
    """The operation of this name, such as "READ", in upper or lower case. Raises: InvalidArgumentError."""
    try:
        return Operation[name.upper()]
    except KeyError:
        raise InvalidArgumentError(f"an operation is one of {', '.join(Operation.__members__)}, not {name!r}") from None


def bits(operations: Iterable[Operation]) -> int:
    """The operations as responses encode them (KIP-430): a bit for each number."""
    return sum(1 << operation for operation in operations)
