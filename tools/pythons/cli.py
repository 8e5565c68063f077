"""`scripts/pythons`: the fast tests, and a core of those against a real Kafka, with each Python that kwire supports.

    scripts/pythons             # all that pyproject.toml names
    scripts/pythons 3.14        # this one; its rows of the table are written anew

A Python is looked for on the PATH, among pyenv's, and, for root on Linux, in Debian, which debootstrap puts into the
cache. Each has an environment of its own in `.cache/pythons`. What came of it is written into docs/pythons.json and
docs/compatibility.md.

Exit codes: 0 all passed; 1 a test failed, or could not be run; 2 wrong usage, or a Python is missing; 130 interrupted.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import ensure_kafka
from tools import evidence_docs
from tools.pythons import page, suites
from tools.pythons.interpreters import Interpreter, NoPythonError, find


def main(words: Sequence[str] | None = None) -> int:
    arguments = parse(words)
    try:
        if "core" in arguments.suites:
            ensure_kafka()  # Maven is here, and not in a Debian of the cache
        worst = [tried(wanted, arguments.suites, write=arguments.write) for wanted in arguments.versions]
    except (ClusterError, OSError) as error:
        print(f"scripts/pythons: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return max(worst)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/pythons", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", type=version, default=page.supported(), metavar="VERSION")
    parser.add_argument(
        "--only", dest="suites", action="append", choices=suites.SUITES, help="this suite; the row of the other stays"
    )
    parser.add_argument("--no-write", dest="write", action="store_false", help="leave the pages as they are")
    arguments = parser.parse_args(words)
    arguments.suites = arguments.suites or list(suites.SUITES)
    return arguments


def version(text: str) -> str:
    """A version is a minor one: which of its releases is the machine's choice."""
    if not re.fullmatch(r"3\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: write 3.13, without the release")
    return text


def tried(wanted: str, names: Sequence[str], *, write: bool) -> int:
    """One Python. The exit code that this makes."""
    try:
        interpreter = find(wanted)
        python = suites.prepare(interpreter)
        return max(tried_suite(wanted, interpreter, python, name, write=write) for name in names)
    except NoPythonError as error:
        print(f"scripts/pythons: {error}", file=sys.stderr)
        return 2
    except suites.NoTestsError as error:
        print(f"scripts/pythons: Python {wanted}: {error}", file=sys.stderr)
        return 1


def tried_suite(wanted: str, interpreter: Interpreter, python: str, name: str, *, write: bool) -> int:
    """One suite with it. Prints a line, and the names of what failed."""
    release, outcome = interpreter.version() or "?", suites.run(interpreter, python, name)
    found = f"{outcome.passed} passed, {len(outcome.failed)} failed, {outcome.skipped} skipped"
    print(f"{release:8} {name:5} {found}, {outcome.seconds:.0f} s", flush=True)
    for failed in outcome.failed:
        print(f"         failed: {failed}", flush=True)
    if write:
        facts: page.Facts = {"version": release, "origin": interpreter.origin, "suites": {name: page.counts(outcome)}}
        page.remember(wanted, facts)
        evidence_docs.rewrite()  # its test is in the suite of the next one
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
