"""kwire's verifiable consumer, as the system tests start Java's: their key stores become PEM, which kwire reads.

It is run as a file, and becomes the consumer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFIG_FLAG = "--consumer.config"
LEFT_OUT = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")


LOG_FILE = "verifiable_consumer.log"


def main(arguments: list[str]) -> None:
    log_to_file(Path(os.environ["LOG_DIR"]))
    if CONFIG_FLAG in arguments:
        at = arguments.index(CONFIG_FLAG) + 1
        arguments[at] = str(with_pem(Path(arguments[at])))
    os.execv(sys.executable, [sys.executable, "-m", "kwire.verifiable_consumer", *arguments])


def log_to_file(folder: Path) -> None:
    """As Java's does: the tests look for errors there."""
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG_FILE, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    os.dup2(log, sys.stderr.fileno())


def with_pem(config: Path) -> Path:
    """The file, or one beside it with the certificates that are trusted; no broker here asks for a client's."""
    lines = config.read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    if "SSL" not in settings.get("security.protocol", ""):
        return config
    trusted = config.with_suffix(".pem")
    listed = ["-keystore", settings["ssl.truststore.location"], "-storepass", settings["ssl.truststore.password"]]
    trusted.write_bytes(
        subprocess.run(["keytool", "-list", "-rfc", *listed], check=True, stdout=subprocess.PIPE).stdout
    )
    kept = [line for line in lines if not line.startswith(LEFT_OUT)]
    changed = config.with_suffix(".kwire.properties")
    changed.write_text("\n".join([*kept, "ssl.truststore.type=PEM", f"ssl.truststore.location={trusted}", ""]))
    return changed


if __name__ == "__main__":
    main(sys.argv[1:])
