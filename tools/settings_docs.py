"""`python -m tools.settings_docs`: writes the tables of other clients' settings into docs/migration.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kwire.config.java_names import JAVA, JAVA_PRODUCER
from kwire.config.librdkafka_names import LIBRDKAFKA
from kwire.config.python_names import PYTHON_CLIENTS
from kwire.config.registry_classes import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.config.foreign_names import ForeignName

PAGE = Path(__file__).parents[1] / "docs" / "migration.md"
MARK = "<!-- written by python -m tools.settings_docs, do not edit -->\n"
FAMILIES = (
    ("Java", JAVA),
    ("Java's deserializers of a schema registry", REGISTRY),
    ("librdkafka and confluent-kafka", LIBRDKAFKA),
    ("kafka-python and aiokafka", PYTHON_CLIENTS),
    ("Java's producer", JAVA_PRODUCER),
)


def page() -> str:
    """The page with the tables as they have to be."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return head + MARK + "".join(line for family in FAMILIES for line in _table(*family))


def _table(family: str, names: Iterable[ForeignName]) -> Iterator[str]:
    yield f"\n### {family}\n\n| setting | in kwire |\n|---|---|\n"
    for entry in sorted(names, key=lambda each: each.name):
        yield f"| `{entry.name}` | {_answer(entry)} |\n"


def _answer(entry: ForeignName) -> str:
    if entry.setting:
        return f"is `{entry.setting}`"
    if entry.idle_at is None:
        return "no effect" + (f": {entry.instead}" if entry.instead else "")
    values = ", ".join(f"`{value}`" for value in sorted(entry.idle_at) if value)
    return f"refused: {entry.instead}; no effect when empty" + (f" or {values}" if values else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
