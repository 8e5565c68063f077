"""Values of settings that other clients convert to a text or a number, and kwire refuses."""

from __future__ import annotations

from uuid import UUID

_TEXTS = (
    *("group_id", "client_id", "client_rack", "group_instance_id"),
    *("sasl_username", "sasl_password", "sasl_plain_username", "sasl_plain_password"),
)


def plain(name: str, value: object) -> object:
    """A number or a UUID as text, where a setting is text; 6000.0 as 6000."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name.replace(".", "_") in _TEXTS:
        return str(value) if is_number or isinstance(value, UUID) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value
