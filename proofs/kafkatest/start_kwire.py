"""kwire's verifiable consumer, as the system tests start Java's: their key stores become PEM, which kwire reads, and
the login in Java's own file becomes a setting. It logs where the tests look for errors.

It is run as a file, and becomes the consumer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CONFIG_FLAG = "--consumer.config"
LOG_FILE = "verifiable_consumer.log"
LEFT_OUT = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
LOGIN_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
LOGIN = re.compile(r"KafkaClient\s*\{(.*?)\}", re.DOTALL)


def main(arguments: list[str]) -> None:
    log_to_file(Path(os.environ["LOG_DIR"]))
    if CONFIG_FLAG in arguments:
        at = arguments.index(CONFIG_FLAG) + 1
        arguments[at] = str(for_kwire(Path(arguments[at]), os.environ.get("KAFKA_OPTS", "")))
    os.execv(sys.executable, [sys.executable, "-m", "kwire.verifiable_consumer", *arguments])


def log_to_file(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG_FILE, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    os.dup2(log, sys.stderr.fileno())


def for_kwire(config: Path, java_options: str) -> Path:
    """The file, or one beside it that says the same in kwire's way."""
    lines = config.read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    changed = [*login(java_options)]
    if "SSL" in settings.get("security.protocol", ""):
        lines = [line for line in lines if not line.startswith(LEFT_OUT)]
        changed += [*trust(settings, config.with_suffix(".pem"))]
    if not changed:
        return config
    file = config.with_suffix(".kwire.properties")
    file.write_text("\n".join([*lines, *changed, ""]))
    return file


def trust(settings: dict[str, str], pem: Path) -> Iterator[str]:
    """Which certificates are trusted. No broker here asks for a client's."""
    store = ["-keystore", settings["ssl.truststore.location"], "-storepass", settings["ssl.truststore.password"]]
    pem.write_bytes(subprocess.run(["keytool", "-list", "-rfc", *store], check=True, stdout=subprocess.PIPE).stdout)
    yield "ssl.truststore.type=PEM"
    yield f"ssl.truststore.location={pem}"


def login(java_options: str) -> Iterator[str]:
    """That of the file which Java's options name."""
    if (file := LOGIN_FILE.search(java_options)) and (entry := LOGIN.search(Path(file[1]).read_text())):
        yield f"sasl.jaas.config={' '.join(entry[1].split())}"


if __name__ == "__main__":
    main(sys.argv[1:])
