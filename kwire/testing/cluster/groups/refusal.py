"""A request that a group refuses: raised by the groups' pure code, turned by handlers into the answer's error code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.protocol.error_codes import ErrorCode


class GroupRefusal(Exception):  # noqa: N818  # it is an answer, not a failure of the cluster
    """The answer is this error. Nothing of the group has changed."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
