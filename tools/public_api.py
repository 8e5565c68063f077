"""`python -m tools.public_api [TAG]`: what has changed in the public API since a tag, so that programs may break.

Without a tag it takes the last one. `STABLE` says what is public; docs/stability.md says it to users. Sources are read,
not imported: griffe compares names, parameters, defaults and base classes. What it does not see, such as names of
metrics and options of commands, is left to tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import griffe

from tools.package import git

TOP = Path(__file__).resolve().parent.parent
ALL = ()
STABLE: Mapping[str, Sequence[str]] = {
    "kwire": ALL,
    "kwire.assignors": ("Assignor", "MemberSubscription", "Plan", "RebalanceProtocol"),
    "kwire.compat.aiokafka": ALL,
    "kwire.compat.aiokafka.errors": ("BrokerResponseError", "ConsumerStoppedError", "IllegalOperation", "KafkaError"),
    "kwire.compat.confluent_kafka": ALL,
    "kwire.compat.confluent_kafka.aio": ALL,
    "kwire.compat.confluent_kafka.error": ALL,
    "kwire.compat.kafka_python": ALL,
    "kwire.compat.kafka_python.errors": ("BrokerResponseError", "KafkaError", "NoBrokersAvailable"),
    "kwire.config.settings": ("AllSettings",),
    "kwire.consumer_events": ALL,
    "kwire.deserializers": ALL,
    "kwire.errors": ALL,
    "kwire.exporters.opentelemetry": ALL,
    "kwire.exporters.prometheus": ALL,
    "kwire.processing": (
        "DeadLetter",
        "OnDataLoss",
        "OnFailure",
        "Ordering",
        "Processor",
        "Retry",
        "Status",
        "dead_letter_topic",
    ),
    "kwire.spark.listener": ("LagListener",),
    "kwire.testing": ALL,
    "kwire.transactions": ("send_offsets_to_transaction",),
}
"""Modules, and which of their names; `ALL` are those of `__all__`, or without one all that have no underscore."""


def main(arguments: Sequence[str]) -> int:
    tag = arguments[0] if arguments else last_tag(TOP)
    if tag is None:
        print("no tag yet: there is no public API to compare with")
        return 0
    found = list(breaks_since(tag, TOP))
    print("\n".join(found) or f"the public API is compatible with {tag}")
    return 1 if found else 0


def missing(top: Path, stable: Mapping[str, Sequence[str]] = STABLE) -> list[str]:
    """What is listed as public and is not there."""
    package = griffe.load(next(iter(stable)).partition(".")[0], search_paths=[top], resolve_aliases=True)
    lacking = []
    for module, names in stable.items():
        found = _api(package, module, names).members
        lacking += [f"{module}.{name}" for name in names or ["..."] if name not in found and not (found and not names)]
    return lacking


def last_tag(top: Path) -> str | None:
    """The tag of the release before this commit."""
    try:
        return git(top, "describe", "--tags", "--abbrev=0", "--match", "v*").strip()
    except subprocess.CalledProcessError:
        return None


def may_break(old: str, new: str) -> bool:
    """Whether a version may do what breaks programs of an older one: a major one, and before 1.0 a minor one."""
    (old_major, old_minor), (new_major, new_minor) = _release(old), _release(new)
    return new_major > old_major or (new_major == 0 and new_minor > old_minor)


def _release(version: str) -> tuple[int, int]:
    major, minor, *_ = version.removeprefix("v").split(".")
    return int(major), int(minor)


def breaks_since(tag: str, top: Path, stable: Mapping[str, Sequence[str]] = STABLE) -> Iterator[str]:
    """A line for each change that may break a program; what was added is none."""
    package = next(iter(stable)).partition(".")[0]
    old = griffe.load_git(package, ref=tag, repo=top, resolve_aliases=True)
    new = griffe.load(package, search_paths=[top], resolve_aliases=True)
    for module, names in stable.items():
        before = _api(old, module, names)
        for change in griffe.find_breaking_changes(before, _api(new, module, before.exports or ())):
            if not _is_about_words(change):
                yield _line(change)


def _api(package: griffe.Object | griffe.Alias, module: str, names: Sequence[str | griffe.ExprName]) -> griffe.Module:
    """A module that has these names of another one, as far as they are there, and no other."""
    made = griffe.Module(module)
    source = _found(package, module)
    if source is not None:
        for name in map(str, names or _public_names(source)):
            if name in source.all_members:
                made.set_member(name, griffe.Alias(name, _target(source[name]), parent=made))
    made.exports = list(made.members)
    return made


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object | griffe.Alias:
    """What a name stands for. griffe knows no names on the left of `A, B = ...`: those are names, and no more."""
    try:
        return member.final_target if isinstance(member, griffe.Alias) else member
    except griffe.AliasResolutionError:
        return griffe.Attribute(member.name)


def _found(package: griffe.Object | griffe.Alias, module: str) -> griffe.Object | griffe.Alias | None:
    below = module.partition(".")[2]
    try:
        return package[below] if below else package
    except KeyError:
        return None


def _public_names(module: griffe.Object | griffe.Alias) -> list[str]:
    if module.exports is not None:
        return [str(name) for name in module.exports]
    return [name for name, member in module.members.items() if not (name.startswith("_") or member.is_imported)]


def _is_about_words(change: griffe.Breakage) -> bool:
    """Whether what a setting is said to do has changed, and not its default: `setting(500, "How many...")`."""
    defaults = [getattr(value, "default", None) for value in (change.old_value, change.new_value)]
    calls = [default for default in defaults if isinstance(default, griffe.ExprCall)]
    return len(calls) == len(defaults) and str(calls[0].arguments[0]) == str(calls[1].arguments[0])


def _line(change: griffe.Breakage) -> str:
    """As in `kwire.Consumer.poll(timeout): Parameter default was changed: 0 -> 1`."""
    of_parameter = isinstance(change.old_value or change.new_value, griffe.Parameter)
    parameter = f"({(change.old_value or change.new_value).name})" if of_parameter else ""
    values = [getattr(value, "default", value) for value in (change.old_value, change.new_value)]
    shown = f": {values[0]} -> {values[1]}" if "default" in change.kind.value else ""
    return f"{change.obj.path}{parameter}: {change.kind.value}{shown}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
