"""Groups with members of both kinds: every other one is Java's."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatest.services.verifiable_client import VerifiableClient, VerifiableClientApp, VerifiableClientJava


class MixedClient(VerifiableClient):  # type: ignore[misc]
    """The first machine of a service runs the other client, the second one Java's, and so on.

    Args:
        parent: the service.
        conf: as for `VerifiableClientApp`.
    """

    def __init__(self, parent: object, conf: Mapping[str, object]) -> None:
        super().__init__()
        self.conf = conf
        self._parent = parent
        self._java = VerifiableClientJava(parent, conf)
        self._other = VerifiableClientApp(parent, conf)

    def exec_cmd(self, node: object) -> str:
        return str(self._of(node).exec_cmd(node))

    def pids(self, node: object) -> list[int]:
        return list(self._of(node).pids(node))

    def _of(self, node: object) -> VerifiableClient:
        return self._other if self._parent.idx(node) % 2 else self._java  # type: ignore[attr-defined]
