"""Compiles the Java parts of `scripts/bench rebalance` against Kafka's jars."""

from __future__ import annotations

from pathlib import Path

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import ensure_kafka, first_error, run

HERE = Path(__file__).resolve().parent
COMPILE_TIMEOUT_S = 120


def compile_java(name: str, classes: Path) -> None:
    """Put the classes of a source file beside this one into a directory.

    Raises:
        ClusterError: There is no compiler, or it refuses.
    """
    kafka = ensure_kafka()
    compiler = [str(kafka.java.with_name("javac")), "-cp", f"{kafka.libs}/*"]
    # A public class wants a file of its own name; it is handed over as one.
    source = classes / "source" / f"{public_class(name)}.java"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text((HERE / name).read_text())
    output, code = run([*compiler, "-d", str(classes), str(source)], timeout_s=COMPILE_TIMEOUT_S)
    if code:
        raise ClusterError(f"{name} does not compile (it needs a JDK): {first_error(output)}")


def public_class(name: str) -> str:
    """rebalance_tap.java holds RebalanceTap."""
    return "".join(word.capitalize() for word in name.removesuffix(".java").split("_"))
