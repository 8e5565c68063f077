"""`scripts/kafka`: real Kafka brokers by hand, one named cluster per clone (others with --name).

Exit codes: 0 done; 1 it did not work; 2 something has to be installed first; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kafka.jars import MissingSoftwareError, file_lock
from kwire.testing.kafka.node import running_processes, stop_detached

if TYPE_CHECKING:
    from collections.abc import Sequence

# In the clone even where KWIRE_CACHE is shared: each clone has clusters of its own.
RUNS = Path(__file__).resolve().parent.parent / ".cache" / "run"


class NamedCluster:
    """A cluster that outlives the command which started it: a directory, and the servers in a file there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = RUNS / name
        self.lock = RUNS / f"{name}.lock"
        self._facts = self.directory / "cluster.json"

    @property
    def nodes(self) -> list[Path]:
        return sorted(self.directory.glob("broker-*"))

    def broker_pids(self) -> list[int]:
        """Process ids of the brokers that run."""
        return [found.broker for node in self.nodes if (found := running_processes(node)) is not None]

    def bootstrap_servers(self) -> str:
        """
        Raises:
            ClusterError: nothing runs here.
        """
        if not self.broker_pids() or not self._facts.exists():
            raise ClusterError(f"no Kafka is running in this clone; start one: scripts/kafka up{self.flag}")
        return str(json.loads(self._facts.read_text())["bootstrap_servers"])

    def note(self, cluster: KafkaCluster) -> None:
        self._facts.write_text(json.dumps({"bootstrap_servers": cluster.bootstrap_servers}))

    def clear(self) -> int:
        """Stops what runs and removes the directory; how many brokers that ended."""
        running = len(self.broker_pids())
        stop_detached(self.nodes)
        shutil.rmtree(self.directory, ignore_errors=True)
        return running

    @property
    def flag(self) -> str:
        return "" if self.name == "default" else f" --name {self.name}"


def up(arguments: argparse.Namespace) -> None:
    """Starts the cluster, or says that it runs."""
    named = NamedCluster(arguments.name)
    with file_lock(named.lock):
        if running := len(named.broker_pids()):
            if running != arguments.brokers:
                raise ClusterError(
                    f"up already, with {running} broker(s); stop it first: scripts/kafka down{named.flag}"
                )
            print(f"running already: {named.bootstrap_servers()}")
            return
        named.clear()
        began_s = time.monotonic()
        cluster = KafkaCluster(arguments.brokers, directory=named.directory)
        cluster.start()
        named.note(cluster)
        if not arguments.foreground:
            cluster.detach()
    brokers = "1 broker" if arguments.brokers == 1 else f"{arguments.brokers} brokers"
    print(f"Kafka is up ({brokers}, {time.monotonic() - began_s:.1f} s): {cluster.bootstrap_servers}")
    if arguments.foreground:
        print("stop it with Ctrl-C", flush=True)
        stay(named, cluster)
    else:
        print(f'for other programs:  eval "$(scripts/kafka env{named.flag})"')
        print(f"stop it with:        scripts/kafka down{named.flag}")


def stay(named: NamedCluster, cluster: KafkaCluster) -> None:
    """Until Ctrl-C, SIGTERM, or `scripts/kafka down`; then everything is stopped and removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while any(cluster.is_running(i) for i in range(len(cluster.addresses))):
            time.sleep(0.2)
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)
    finally:
        cluster.stop()
        named.clear()


def down(arguments: argparse.Namespace) -> None:
    """Stops the cluster and removes its data."""
    named = NamedCluster(arguments.name)
    with file_lock(named.lock):  # a cluster that is starting just now is stopped too
        stopped = named.clear()
    print(f"stopped {stopped} broker(s)" if stopped else "no Kafka was running")


def env(arguments: argparse.Namespace) -> None:
    """Prints what a shell evaluates."""
    print(f"export KWIRE_BOOTSTRAP_SERVERS={NamedCluster(arguments.name).bootstrap_servers()}")


def status(arguments: argparse.Namespace) -> None:
    """Prints which brokers run."""
    named = NamedCluster(arguments.name)
    print(f"bootstrap servers: {named.bootstrap_servers()}")
    for node in named.nodes:
        found = running_processes(node)
        state = "not running" if found is None else f"running, process {found.broker}"
        print(f"{node.name}: {state}, log: {node / 'broker.log'}")


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/kafka", description="Real Kafka brokers for trying things out.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for action in (up, down, env, status):
        command = commands.add_parser(action.__name__, help=action.__doc__)
        command.set_defaults(action=action)
        command.add_argument("--name", type=name, default="default", help="to have several clusters in one clone")
        if action is up:
            command.add_argument("brokers", nargs="?", type=int, default=1, metavar="N", help="how many (default 1)")
            command.add_argument("--foreground", action="store_true", help="stay, and stop the brokers at the end")
    return parser.parse_args(words)


def name(text: str) -> str:
    """A cluster's name becomes a directory's."""
    if not text.replace("-", "").replace("_", "").isalnum():
        raise argparse.ArgumentTypeError(f"{text!r}: use letters, digits, - and _")
    return text


def main(words: Sequence[str] | None = None) -> int:
    arguments = parse(words)
    try:
        arguments.action(arguments)
    except (ClusterError, OSError) as error:
        print(f"scripts/kafka: {error}", file=sys.stderr)
        return 2 if isinstance(error, MissingSoftwareError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
