"""Kafka is downloaded once and never half; whatever is missing is said in one sentence."""

from __future__ import annotations

import threading
import zipfile
from pathlib import Path

import pytest

from kwire.testing.kafka import ClusterError, jars
from kwire.testing.kafka.jars import Checkpoint, MissingSoftwareError

VERSION = "4.4.0"
CHECKPOINT = b"feature levels"


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on the PATH; empty."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return directory


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def give_java(bin_dir: Path, version: str = "21.0.2") -> None:
    """A `java` that knows its version and formats storage."""
    program(
        bin_dir / "java",
        f"""if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2024-01-16' >&2; exit 0; fi
/bin/mkdir data; printf '{CHECKPOINT.decode()}' > data/bootstrap.checkpoint""",
    )


def give_maven(bin_dir: Path, jar: Path, artifact: str = "kafka_2.13") -> None:
    """A `mvn` that notes each run and copies one jar to the output directory it is told."""
    program(
        bin_dir / "mvn",
        f"""echo run >> {bin_dir}/mvn.runs
for word in "$@"; do case $word in -DoutputDirectory=*) out=${{word#*=}};; esac; done
/bin/mkdir "$out"; /bin/cp {jar} "$out/{artifact}-{VERSION}.jar" """,
    )


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "some.jar", "w") as file:
        file.writestr("Main.class", b"")
    return tmp_path / "some.jar"


def runs(bin_dir: Path) -> int:
    return len((bin_dir / "mvn.runs").read_text().splitlines())


def test_a_download_is_kept(bin_dir: Path, jar: Path, tmp_path: Path) -> None:
    give_java(bin_dir)
    give_maven(bin_dir, jar)
    jars.ensure_kafka(VERSION, tmp_path / "cache")
    kafka = jars.ensure_kafka(VERSION, tmp_path / "cache")
    assert kafka.checkpoint == Checkpoint("bootstrap.checkpoint", CHECKPOINT)
    assert [path.name for path in kafka.libs.iterdir()] == [f"kafka_2.13-{VERSION}.jar"]
    assert runs(bin_dir) == 1


def test_the_tools_are_kept_apart_and_need_no_java(bin_dir: Path, jar: Path, tmp_path: Path) -> None:
    give_maven(bin_dir, jar, "kafka-tools")
    libs = [jars.ensure_tools(VERSION, tmp_path / "cache") for _ in range(2)]
    assert libs == [tmp_path / "cache/kafka-tools" / VERSION / "libs"] * 2
    assert [path.name for path in libs[0].iterdir()] == [f"kafka-tools-{VERSION}.jar"]
    assert "<artifactId>kafka-tools</artifactId>" in (libs[0].parent / "pom.xml").read_text()
    assert runs(bin_dir) == 1


def test_two_who_want_it_at_once_download_it_once(bin_dir: Path, jar: Path, tmp_path: Path) -> None:
    give_java(bin_dir)
    give_maven(bin_dir, jar)
    wanted = (VERSION, tmp_path / "cache")
    threads = [threading.Thread(target=jars.ensure_kafka, args=wanted, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert runs(bin_dir) == 1


def test_a_cached_kafka_needs_no_maven(bin_dir: Path, jar: Path, tmp_path: Path) -> None:
    give_java(bin_dir)
    give_maven(bin_dir, jar)
    jars.ensure_kafka(VERSION, tmp_path / "cache")
    (bin_dir / "mvn").unlink()
    assert jars.ensure_kafka(VERSION, tmp_path / "cache").version == VERSION


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo '[ERROR] '; echo '\033[0m[ERROR] Could not transfer kafka: unknown host'; exit 1", "unknown host"),
        ("exit 0", "incomplete"),
    ],
    ids=["Maven fails", "Maven leaves nothing"],
)
def test_a_failed_download_leaves_nothing_to_mistake(
    bin_dir: Path, tmp_path: Path, jar: Path, script: str, problem: str
) -> None:
    give_java(bin_dir)
    program(bin_dir / "mvn", script)
    with pytest.raises(MissingSoftwareError, match=problem):
        jars.ensure_kafka(VERSION, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache/kafka").iterdir()] == [f"{VERSION}.lock"]
    give_maven(bin_dir, jar)
    assert jars.ensure_kafka(VERSION, tmp_path / "cache").libs.exists()


def test_a_cache_that_cannot_be_written_is_said_with_the_variable_that_names_it(
    bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an OSError about a path that nobody had typed."""
    give_java(bin_dir)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KWIRE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ClusterError, match=r"downloads cannot be kept in .*: Not a directory; set KWIRE_CACHE to"):
        jars.ensure_kafka(VERSION)


def test_a_damaged_jar_is_not_kept(bin_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "half.jar").write_bytes(b"PK\3\4 and then the line went dead")
    give_java(bin_dir)
    give_maven(bin_dir, tmp_path / "half.jar")
    with pytest.raises(MissingSoftwareError, match=rf"damaged: kafka_2.13-{VERSION}.jar"):
        jars.ensure_kafka(VERSION, tmp_path / "cache")


def test_what_a_killed_download_left_is_removed(bin_dir: Path, jar: Path, tmp_path: Path) -> None:
    half = tmp_path / "cache/kafka" / f"{VERSION}.part-dead" / "libs"
    half.mkdir(parents=True)
    give_java(bin_dir)
    give_maven(bin_dir, jar)
    jars.ensure_kafka(VERSION, tmp_path / "cache")
    assert not half.parent.exists()


def test_a_failing_format_tool_is_reported(bin_dir: Path, jar: Path, tmp_path: Path) -> None:
    give_java(bin_dir)
    give_maven(bin_dir, jar)
    version = 'if [ "$1" = -version ]; then exit 0; fi'
    program(bin_dir / "java", f"{version}; echo starting; echo 'java.lang.IllegalStateException: no'; exit 1")
    with pytest.raises(ClusterError, match=r"format tool failed: java\.lang\.IllegalStateException: no"):
        jars.ensure_kafka(VERSION, tmp_path / "cache")


def test_no_java(bin_dir: Path) -> None:
    with pytest.raises(MissingSoftwareError, match="Java 17 or newer is needed"):
        jars.find_java()


def test_a_java_that_only_says_there_is_none(bin_dir: Path) -> None:
    program(bin_dir / "java", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    with pytest.raises(MissingSoftwareError, match="Java 17 or newer is needed"):
        jars.find_java()


def test_an_old_java_is_named(bin_dir: Path) -> None:
    give_java(bin_dir, "1.8.0_292")
    with pytest.raises(MissingSoftwareError, match=r"bin/java is Java 8"):
        jars.find_java()


def test_java_home_comes_first(bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_java(bin_dir, "1.8.0_292")
    (tmp_path / "jdk/bin").mkdir(parents=True)
    give_java(tmp_path / "jdk/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert jars.find_java() == tmp_path / "jdk/bin/java"


def test_no_maven(bin_dir: Path, tmp_path: Path) -> None:
    give_java(bin_dir)
    with pytest.raises(MissingSoftwareError, match="Maven is needed once"):
        jars.ensure_kafka(VERSION, tmp_path / "cache")


@pytest.mark.parametrize("version", ["../../etc", "4.3", "latest", "4.4.0 "])
def test_a_version_that_is_none_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_VERSION", version)
    with pytest.raises(ClusterError, match="KAFKA_VERSION has to look like"):
        jars.kafka_version()


def test_a_program_that_hangs_counts_as_failed() -> None:
    assert jars.run(["/bin/sh", "-c", "sleep 60"], timeout_s=0.01) == ("no end after 0 s", 1)


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"KWIRE_CACHE": "/chosen", "XDG_CACHE_HOME": "/theirs"}, "/chosen"),
        ({"KWIRE_CACHE": "~/chosen"}, "/home/user/chosen"),
        ({"XDG_CACHE_HOME": "/theirs"}, "/theirs/kwire"),
        ({"XDG_CACHE_HOME": "theirs"}, "/home/user/.cache/kwire"),
        ({}, "/home/user/.cache/kwire"),
    ],
)
def test_an_installed_kwire_keeps_downloads_where_the_user_does(
    environ: dict[str, str], directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "HOME", tmp_path)
    for name in ("KWIRE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**environ, "HOME": "/home/user"}.items():
        monkeypatch.setenv(name, value)
    assert str(jars.cache_dir()) == directory


def test_a_clone_keeps_its_own_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KWIRE_CACHE", raising=False)
    assert jars.cache_dir() == Path(__file__).resolve().parents[3] / ".cache"
