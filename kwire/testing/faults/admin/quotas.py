"""Quotas of clients (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.testing.faults.admin.patience import AdminError, insist
from kwire.testing.faults.admin.wire import AlterClientQuotasRequest, Brokers, QuotaChange, QuotaEntity, QuotaEntry


class Quotas:
    """The quotas of client ids."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def change(self, quotas: Mapping[str | None, Mapping[str, float | None]]) -> None:
        """Set quotas: by client id, and by the quota's name.

        Args:
            quotas: the id None is for all who have none of their own; the value None takes a quota back.
        """
        request = AlterClientQuotasRequest(entries=[_entry(client, own) for client, own in quotas.items()])
        insist(lambda: self._order(request), "quotas are set")

    def _order(self, request: AlterClientQuotasRequest) -> None:
        answer = self._brokers.ask(request)
        wrong = [entry.error_message or str(entry.error_code) for entry in answer.entries if entry.error_code]
        if wrong:
            raise AdminError(f"quotas are refused: {wrong}")


def _entry(client_id: str | None, quotas: Mapping[str, float | None]) -> QuotaEntry:
    changes = [
        QuotaChange(key=name, value=0.0 if value is None else value, remove=value is None)
        for name, value in quotas.items()
    ]
    return QuotaEntry(entity=[QuotaEntity(entity_type="client-id", entity_name=client_id)], ops=changes)
