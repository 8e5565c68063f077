"""Asks Kafka's own assignors what they would do: the measure that kwire's are tested against.

`AssignorOracle` compiles `assignor_oracle.java` against the jars that `kwire.testing.kafka` gets, and talks to it line
by line: one JVM for any number of questions. Needs a JDK, because it compiles. Used by the integration tests.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import MissingSoftwareError, ensure_kafka, first_error, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

SOURCE = Path(__file__).with_suffix(".java")
COMPILE_TIMEOUT_S = 120
EXIT_TIMEOUT_S = 10


class OracleError(Exception):
    """Kafka's assignor failed. The next question may be asked."""


@dataclass(frozen=True, slots=True)
class OracleMember:
    """What a member sends when it joins."""

    instance_id: str | None
    subscription: bytes


@dataclass(frozen=True, slots=True)
class OracleAnswer:
    """Java's plan, and what each member would add to its next subscription, having got it in generation 7."""

    plan: dict[str, list[tuple[str, int]]]
    user_data: dict[str, bytes | None]


class AssignorOracle:
    """A JVM with Kafka's assignors; a context manager."""

    def __init__(self) -> None:
        kafka = ensure_kafka()
        self._classes = tempfile.TemporaryDirectory(prefix="kwire-oracle-")
        try:
            class_path = f"{kafka.libs}/*"
            compiler = kafka.java.with_name("javac")
            output, code = run(
                [str(compiler), "-cp", class_path, "-d", self._classes.name, str(SOURCE)], timeout_s=COMPILE_TIMEOUT_S
            )
            if not compiler.exists():
                raise MissingSoftwareError(
                    f"a JDK is needed to ask Kafka's own assignors, and there is no javac beside {kafka.java}: "
                    "install one (Debian and Ubuntu: apt install default-jdk-headless) and run this again"
                )
            if code:
                raise ClusterError(f"{SOURCE.name} does not compile: {first_error(output)}")
            self._process = subprocess.Popen(
                [str(kafka.java), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                 "-cp", f"{self._classes.name}:{class_path}", "AssignorOracle"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
            )  # fmt: skip
        except BaseException:
            self._classes.cleanup()
            raise

    def __enter__(self) -> AssignorOracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stdout.close()
        self._classes.cleanup()

    def ask(
        self, assignor: str, racks: Mapping[str, Sequence[Sequence[str]]], members: Mapping[str, OracleMember]
    ) -> OracleAnswer:
        """What Kafka's assignor makes of a group.

        Args:
            assignor: its name.
            racks: those of the replicas of each partition of each topic.
            members: by member id.

        Raises:
            OracleError: it failed; the sticky ones do at times, after a member has missed a rebalance.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        sent = {
            member_id: {"instance": member.instance_id, "subscription": b64encode(member.subscription).decode()}
            for member_id, member in members.items()
        }
        stdin.write(json.dumps({"assignor": assignor, "racks": racks, "members": sent}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise ClusterError("the JVM with Kafka's assignors has died; what it said is in this program's stderr")
        answer = json.loads(line)
        if "error" in answer:
            raise OracleError(f"Kafka's {assignor} assignor threw {answer['error']}")
        return OracleAnswer(
            plan={member_id: [(topic, number) for topic, number in tps] for member_id, tps in answer["plan"].items()},
            user_data={member_id: data and b64decode(data) for member_id, data in answer["userData"].items()},
        )
