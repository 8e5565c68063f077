"""Permissions (KIP-11): they are taken from every client, and given back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has them all, without saying so to checkers
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kwire.testing.faults.admin.patience import ANSWER_S, insist

EVERYBODY, EVERYWHERE = "User:*", "*"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Whether everybody may do something."""

    operation: AclOperation
    permission: AclPermissionType


# What somebody has said anything about is closed to all who are not named. What is denied goes before what is allowed.
ALL_ELSE = AccessRule(AclOperation.ALL, AclPermissionType.ALLOW)
NO_READING = AccessRule(AclOperation.READ, AclPermissionType.DENY)


class Permissions:
    """The permissions of every client: without authentication all have the same principal."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def forbid_topic(self, name: str) -> None:
        """Forbid to read a topic, and to commit offsets of it."""
        self._add(ResourceType.TOPIC, name, (ALL_ELSE, NO_READING))

    def allow_topic(self, name: str) -> None:
        self._remove(ResourceType.TOPIC, name, (NO_READING, ALL_ELSE))

    def forbid_group(self, group_id: str) -> None:
        """Forbid to join a group, and to commit for it."""
        self._add(ResourceType.GROUP, group_id, (ALL_ELSE, NO_READING))

    def allow_group(self, group_id: str) -> None:
        self._remove(ResourceType.GROUP, group_id, (NO_READING, ALL_ELSE))

    def _add(self, kind: ResourceType, name: str, rules: Sequence[AccessRule]) -> None:
        """Add rules one after the other, so that a writer is never without its permission."""
        for rule in rules:
            binding = AclBinding(*_about(kind, name), EVERYBODY, EVERYWHERE, rule.operation, rule.permission)
            insist(partial(self._set, binding), f"a permission of {name} is set")

    def _remove(self, kind: ResourceType, name: str, rules: Sequence[AccessRule]) -> None:
        for rule in rules:
            gone = AclBindingFilter(*_about(kind, name), EVERYBODY, EVERYWHERE, rule.operation, rule.permission)
            insist(partial(self._take_back, gone), f"a permission of {name} is as before")

    def _set(self, binding: AclBinding) -> None:
        self._client.create_acls([binding])[binding].result(ANSWER_S)

    def _take_back(self, gone: AclBindingFilter) -> None:
        self._client.delete_acls([gone])[gone].result(ANSWER_S)


def _about(kind: ResourceType, name: str) -> tuple[ResourceType, str, ResourcePatternType]:
    return kind, name, ResourcePatternType.LITERAL
