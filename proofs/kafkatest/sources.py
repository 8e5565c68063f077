"""The system tests' text: a checkout of Apache Kafka, copied, and changed where it is older than the Kafka it meets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kwire.testing.kafka import ClusterError

COMMIT = "1eb7644349c"
"""Of Kafka's trunk, October 2024 (4.0.0-SNAPSHOT): the changes below are for it."""
VARIABLE = "KAFKA_CHECKOUT"
HOW = (
    f"clone Apache Kafka's public repository with git, check out {COMMIT}, and name the folder: --checkout PATH, or "
    f"{VARIABLE}=PATH"
)


class NoTestsError(ClusterError):
    """The system tests cannot be had from what was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """In one file below `tests/kafkatest`, this text becomes that one, wherever it stands."""

    file: str
    old: str
    new: str
    why: str


CHANGES = (
    Change(
        file="services/kafka/quorum.py",
        old="default_quorum_type = zk\n",
        new="default_quorum_type = isolated_kraft\n",
        why="Kafka 4 has no ZooKeeper; tests that do not say which quorum they want get KRaft",
    ),
    Change(
        file="services/verifiable_consumer.py",
        old="                self.session_timeout_sec*1000)\n",
        new=(
            "                self.session_timeout_sec*1000)\n"
            "        if self.is_consumer_group_protocol_enabled():\n"
            '            cmd = cmd.replace(" --session-timeout %s" % (self.session_timeout_sec*1000), "")\n'
        ),
        why="a consumer of Kafka 4 refuses session.timeout.ms with group.protocol=consumer: brokers decide it",
    ),
    Change(
        file="services/kafka/kafka.py",
        old='self.log_level = "DEBUG"',
        new='self.log_level = "INFO"',
        why="with the log level DEBUG brokers are too slow where ten machines share two cores",
    ),
    Change(
        file="services/kafka/kafka.py",
        old="has_sasl = self.security_config.has_sasl\n",
        new="has_sasl = self.security_config.has_sasl_kerberos\n",
        why="a server of Kerberos is started only where Kerberos is used: its class is not published with the release",
    ),
    Change(
        file="services/kafka/kafka.py",
        old='Running alter unclean leader command...\\n%s" % cmd)\n        node.account.ssh(cmd)\n',
        new=(
            'Running alter unclean leader command...\\n%s" % cmd)\n        node.account.ssh(cmd)\n'
            '        elect = "%s --bootstrap-server %s --election-type unclean --topic %s --partition 0"\n'
            '        script = self.path.script("kafka-leader-election.sh", node)\n'
            "        node.account.ssh(elect % (script, self.bootstrap_servers(self.security_protocol), topic))\n"
        ),
        why="with KRaft an unclean leader election comes at once only on request, else within five minutes",
    ),
    Change(
        file="services/security/security_config.py",
        old="if self.has_sasl_kerberos:\n            node.account.copy_to(MiniKdc",
        new="if self.has_sasl_kerberos and MiniKdc.LOCAL_KEYTAB_FILE:\n            node.account.copy_to(MiniKdc",
        why="a client's configuration names Kerberos even where brokers log in by another mechanism",
    ),
    Change(
        file="tests/verifiable_consumer_test.py",
        old='log_level="TRACE"',
        new='log_level="INFO"',
        why="with the log level TRACE Java's consumer is too slow",
    ),
    Change(
        file="tests/verifiable_consumer_test.py",
        old='log_level="DEBUG"',
        new='log_level="INFO"',
        why="with the log level DEBUG the producer is too slow",
    ),
    Change(
        file="tests/core/security_test.py",
        old='"grep %s %s" % (error, self.consumer.LOG_FILE)',
        new="\"grep -E '%s|SslAuthenticationError' %s\" % (error, self.consumer.LOG_FILE)",
        why="the test looks for Java's name of the error in the consumer's log; kwire's is SslAuthenticationError",
    ),
    Change(
        file="tests/client/compression_test.py",
        old="from kafkatest.services.console_consumer import ConsoleConsumer\n",
        new="from proofs.kafkatest.in_ducktape.reading import VerifiableConsumer\n",
        why="the test uses the console consumer, which another client cannot replace; the copy uses the verifiable one",
    ),
    Change(
        file="tests/client/compression_test.py",
        old="= ConsoleConsumer(",
        new="= VerifiableConsumer(",
        why="as above",
    ),
)


def find_checkout(named: Path | None) -> Path:
    """The one that was named, in the command or in the environment.

    Raises:
        NoTestsError: none was named, or it is none.
    """
    path = named or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if path is None:
        raise NoTestsError(f"Kafka's system tests are in no package: {HOW}")
    path = path.expanduser().absolute()
    for part in ("tests/kafkatest/services/verifiable_client.py", "bin/kafka-run-class.sh", "config"):
        if not (path / part).exists():
            raise NoTestsError(f"{path} has no {part}: {HOW}")
    return path


def copy_tests(checkout: Path, folder: Path) -> None:
    """Copies `kafkatest` into the folder, and changes it.

    Raises:
        NoTestsError: a text to be changed is not there.
    """
    shutil.copytree(checkout / "tests/kafkatest", folder / "kafkatest")
    for change in CHANGES:
        apply(change, folder / "kafkatest")


def apply(change: Change, tests: Path) -> None:
    file = tests / change.file
    text = file.read_text() if file.exists() else ""
    if change.old not in text:
        raise NoTestsError(f"tests/kafkatest/{change.file} has no {change.old.strip()!r}: {HOW}")
    file.write_text(text.replace(change.old, change.new))


def identity(checkout: Path) -> dict[str, str]:
    """Of which commit and version the tests are, as far as the folder tells."""
    found = re.search(
        r'__version__ = "(.*)"|__version__ = \'(.*)\'', (checkout / "tests/kafkatest/__init__.py").read_text()
    )
    version = next(filter(None, found.groups())) if found else "unknown"
    asked = ["git", "-C", str(checkout), "rev-parse", "--short=11", "HEAD"]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return {"tests": done.stdout.strip() or "unknown", "tests_version": version}
