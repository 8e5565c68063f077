"""The jars of Spark's Kafka source are got once, each by itself."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kwire.testing.kafka.jars import MissingSoftwareError
from tools.spark_jars import JARS, SPARK_VERSION, ensure_spark_jars


def give_maven(directory: Path, *names: str) -> None:
    """A `mvn` that notes each run and leaves jars of these names."""
    jar = directory / "some.jar"
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("Main.class", b"")
    copies = "\n".join(f'/bin/cp {jar} "$out/{name}"' for name in names)
    (directory / "mvn").write_text(
        f"""#!/bin/sh
echo run >> {directory}/runs
for word in "$@"; do case $word in -DoutputDirectory=*) out=${{word#*=}};; esac; done
/bin/mkdir "$out"
{copies}
"""
    )
    (directory / "mvn").chmod(0o755)


def test_each_jar_is_named_without_what_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    names = [f"{artifact}-{version}.jar" for _, artifact, version in JARS]
    give_maven(tmp_path, *names)
    found = [ensure_spark_jars(tmp_path / "cache") for _ in range(2)]
    assert [jar.name for jar in found[1]] == sorted(names)
    assert (tmp_path / "runs").read_text() == "run\n"
    pom = (tmp_path / "cache/spark-kafka" / SPARK_VERSION / "pom.xml").read_text()
    assert pom.count("<exclusion>") == len(JARS)


def test_a_set_without_the_source_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    give_maven(tmp_path, "kafka-clients-3.9.2.jar")
    with pytest.raises(MissingSoftwareError, match=r"Spark's Kafka source .* is incomplete"):
        ensure_spark_jars(tmp_path / "cache")
