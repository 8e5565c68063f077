"""`python -m tools.evidence_docs`: writes the results in docs/evidence into docs/evidence.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tools.evidence import DOCS, Result, read_results
from tools.evidence_pages import results_of_pages

PAGE = DOCS / "evidence.md"
MARK = "<!-- written by python -m tools.evidence_docs, do not edit -->\n"
JUDGES = {
    "kafkatest": "the system tests of Apache Kafka's developers, with Java's consumer beside kwire",
    "independent-checker": "Jepsen's checker of Kafka histories",
    "peers-tests": "the tests of kafka-python, aiokafka and confluent-kafka",
    "brokers": "Apache Kafka 3.9, 4.3 and 4.4; kfake of franz-go",
    "pythons": "the releases of CPython",
    "soak": "kwire's own judge, over hours on a real Kafka",
    "mutation": "kwire's own tests, which have to notice planted changes of the code",
    "groups": "kwire's own brokers, on a virtual clock",
}
"""Who says so, in the order of the page; of others, what stands among their versions."""


def page() -> str:
    """The page with its results as they have to be."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return head + MARK + "\n" + "\n".join(body(results_of_pages() | read_results()))


def body(results: Mapping[str, Result]) -> Iterator[str]:
    """The summary, and a section for each."""
    names = sorted(results, key=lambda name: (_place(name), name))
    yield "## In short\n"
    yield "| claim | who judges | result | day | |"
    yield "|---|---|---|---|---|"
    for name in names:
        yield _summary(name, results[name])
    for name in names:
        yield from _section(results[name])


def _place(name: str) -> int:
    return list(JUDGES).index(name) if name in JUDGES else len(JUDGES)


def _summary(name: str, result: Result) -> str:
    first, *others = result.figures
    came = f"{first.what}: {first.value}"
    if others:
        came += f"; {len(others)} more {'figure' if len(others) == 1 else 'figures'}"
    if result.not_met:
        came += f"; not met or left out: {len(result.not_met)}"
    judge = JUDGES.get(name) or _versions({what: of for what, of in result.versions.items() if what != "kwire"})
    link = f"[more](#{_anchor(result.title)})"
    return f"| {' | '.join(_cell(text) for text in (result.claim, judge, came, result.date, link))} |"


def _section(result: Result) -> Iterator[str]:
    yield f"\n## {result.title}\n\n{result.claim}\n"
    yield f"```shell\n{result.command}\n```\n"
    yield f"Run on {result.date}: {_versions(result.versions)}.\n"
    yield "| what | figure |\n|---|---|"
    for figure in result.figures:
        yield f"| {_cell(figure.what)} | {_cell(figure.value)} |"
    if result.not_met:
        yield "\n| what failed, or is left out | why |\n|---|---|"
        for each in result.not_met:
            yield f"| {_cell(each.what)} | {_cell(each.why)} |"
    if result.page is not None:
        is_picture = result.page.endswith(".svg")
        yield f"\n![{result.title}]({result.page})" if is_picture else f"\n[The page about it]({result.page}) has more."
    if not result.not_met:
        yield "\nNothing failed, and nothing is left out."
    yield ""


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{what} {of}" for what, of in versions.items())


def _anchor(title: str) -> str:
    """As GitHub and the site make it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def rewrite() -> None:
    """Writes the page anew: a command has left other figures."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
