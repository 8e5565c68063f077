"""Which tests there are: of each a name, arguments, and why it is not run, if it is not."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from proofs.kafkatest.sources import NoTestsError

Argument: TypeAlias = str | int | bool | list[str] | None

FILES = (
    "client/consumer_test.py",
    "client/consumer_rolling_upgrade_test.py",
    "client/consumer_protocol_migration_test.py",
    "client/truncation_test.py",
    "client/pluggable_test.py",
    "client/compression_test.py",
    "core/security_test.py",
    "core/replication_test.py",
)
"""Below `tests/kafkatest/tests`: all whose consumer is VerifiableConsumer, and that of compression."""

_COLLECTED = re.compile(r"<module=(\S+), cls=(\w+), function=(\w+), injected_args=(.*?), file=")
KRAFT = "ISOLATED_KRAFT"
# They are the same in all tests that are run, and would only make names longer.
UNTOLD = ("metadata_quorum", "use_new_coordinator", "consumer_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test with its arguments."""

    file: str
    """Below `tests/kafkatest/tests`."""
    test_class: str
    function: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def symbol(self) -> str:
        """As ducktape takes it, below `tests`."""
        arguments = f"@{json.dumps(self.arguments, separators=(',', ':'))}" if self.arguments else ""
        return f"kafkatest/tests/{self.file}::{self.test_class}.{self.function}{arguments}"

    @property
    def test_id(self) -> str:
        """As ducktape reports it."""
        module = self.file.removesuffix(".py").replace("/", ".")
        arguments = "".join(f".{name}={value}" for name, value in self.arguments.items())
        return f"kafkatest.tests.{module}.{self.test_class}.{self.function}{arguments}"

    @property
    def name(self) -> str:
        return f"{self.test_class}.{self.function}"

    def __str__(self) -> str:
        told = {name: _short(value) for name, value in self.arguments.items() if name not in UNTOLD}
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in told.items())})"


def not_applicable(case: Case) -> str | None:
    """Why it is not run for anybody, if it is not."""
    given = case.arguments.get
    if given("metadata_quorum", KRAFT) != KRAFT:
        return "of ZooKeeper, which Kafka 4 does not have"
    if given("use_new_coordinator") is False:
        return "of the old coordinator, which Kafka 4 does not have"
    if given("consumer_version", "dev") != "dev":
        return "of a group that Java's older consumers begin"
    if given("broker_type") == "controller":
        return "of a broker that is the controller too: KRaft has it on a machine of its own"
    if "GSSAPI" in _mechanisms(case):
        return "of Kerberos: its server is one of Kafka's test classes, whose jar is not published with the release"
    if any(mechanism.startswith("SCRAM") for mechanism in _mechanisms(case)):
        return "of SCRAM between brokers: the tests set it up by ZooKeeper"
    return None


def _mechanisms(case: Case) -> set[str]:
    """The tests' default is GSSAPI."""
    if "SASL" not in str(case.arguments.get("security_protocol", "")):
        return set()
    sides = ("client_sasl_mechanism", "interbroker_sasl_mechanism")
    return {str(case.arguments.get(side, "GSSAPI")) for side in sides}


def collect(ducktape: Path, tests: Path, scratch: Path) -> list[Case]:
    """All that ducktape finds.

    Raises:
        NoTestsError: it found nothing.
    """
    files = [f"kafkatest/tests/{file}" for file in FILES]
    done = subprocess.run(
        [str(ducktape), "-m", "ducktape", "--collect-only", "--results-root", str(scratch), *files],
        cwd=tests, env={**os.environ, "PYTHONPATH": str(tests)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    found = list(parse_collected(done.stdout))
    if not found:
        raise NoTestsError(f"ducktape found no tests; it said: {done.stdout.strip()[-500:]}")
    return found


def parse_collected(printed: str) -> Iterator[Case]:
    """Each test once: two lists of arguments may name the same one."""
    seen = set()
    for module, test_class, function, arguments in _COLLECTED.findall(printed):
        case = Case(
            file=f"{module.removeprefix('kafkatest.tests.').replace('.', '/')}.py",
            test_class=test_class,
            function=function,
            arguments=ast.literal_eval(arguments) or {},
        )
        if case.symbol not in seen:
            seen.add(case.symbol)
            yield case


def _short(value: Argument) -> str:
    """Without the packages of Java's classes."""
    return str(value).rsplit(".", 1)[-1] if isinstance(value, str) and value.startswith("org.") else str(value)
