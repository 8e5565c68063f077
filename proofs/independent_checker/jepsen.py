"""Jepsen's checker of Kafka histories, run from its own source: `jepsen.tests.kafka`, with Elle under it.

    checker = Jepsen.in_checkouts(Path("/somewhere"))
    checker.judge([Path("history.edn")])

Its jars are in no repository that Maven knows by itself, so the sources of it, and of what it needs, are taken from
checkouts that lie side by side in one directory; Clojure comes from Maven. What only draws pictures, makes operations
or runs tests is not there: `clojure/names/` has their names, and they do nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import cache_dir, copy_jars, ensure, find_java, first_error, run

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "clojure" / "judge.clj"
NAMES = HERE / "clojure" / "names"

CLOJURE_VERSION = "1.12.5"
JARS = (
    ("org.clojure", "clojure", CLOJURE_VERSION),
    ("org.clojure", "tools.logging", "1.3.1"),
    ("io.lacuna", "bifurcan", "0.2.0-alpha7"),
)
# Where sources of each lie in a clone of it.
CHECKOUTS = MappingProxyType(
    {
        "jepsen-io/jepsen": ("jepsen/src", "txn/src"),
        "jepsen-io/elle": ("src",),
        "jepsen-io/history": ("src",),
        "aphyr/dom-top": ("src",),
        "aphyr/bifurcan-clj": ("src",),
        "aphyr/tesser": ("core/src",),
        "clj-commons/slingshot": ("src",),
        "clj-commons/potemkin": ("src",),
        "clj-commons/riddley": ("src",),
    }
)
WRITTEN_IN_JAVA = ("elle/src/elle", "potemkin/src/potemkin", "riddley/src/riddley")

DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kwire</groupId>
  <artifactId>clojure-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
COMPILE_TIMEOUT_S = 300
STARTUP_TIMEOUT_S = 600
# For each history; most take a tenth of a second.
JUDGING_TIMEOUT_S = 60
MEMORY = "-Xmx2g"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of Jepsen's checker on a history.

    Args:
        bad: what makes it bad, and how often: "lost-write=1".
        found: that, and what it found and allows.
    """

    bad: tuple[str, ...]
    found: tuple[str, ...]

    @classmethod
    def of_line(cls, line: str) -> tuple[Path, Verdict]:
        path, *counted = line.rstrip("\n").split("\t")
        bad, found = (tuple(filter(None, each.split(","))) for each in counted)
        return Path(path), cls(bad, found)


class Jepsen:
    """Jepsen's checker, which a JVM with Clojure runs over histories.

    Args:
        java: the program.
        sources: directories with Clojure sources.
        java_files: what has to be compiled.
        libs: the directory with Clojure's jars.
    """

    def __init__(self, java: Path, sources: Sequence[Path], java_files: Sequence[Path], libs: Path) -> None:
        self._java = java
        self._sources = sources
        self._java_files = java_files
        self._libs = libs

    @classmethod
    def in_checkouts(cls, directory: Path, cache: Path | None = None) -> Jepsen:
        """From clones that lie in a directory.

        Raises:
            ClusterError: One is missing, or Java, or Maven, or Clojure cannot be had.
        """
        sources = [
            directory / repository.partition("/")[2] / source
            for repository, places in CHECKOUTS.items()
            for source in places
        ]
        if missing := missing_in(directory):
            clones = "; ".join(f"git clone https://github.com/{repository}" for repository in missing)
            raise ClusterError(
                f"{directory} lacks sources of Jepsen's checker: in there, run {clones}, or name another directory "
                "with --checkout"
            )
        java = find_java()
        libs = (cache or cache_dir()) / "clojure" / CLOJURE_VERSION
        pom = POM.format(dependencies="".join(DEPENDENCY.format(*jar) for jar in JARS))
        title, wanted = f"Clojure {CLOJURE_VERSION}", f"clojure-{CLOJURE_VERSION}.jar"
        ensure(libs, lambda part: copy_jars(pom, part, title=title, detail=f"{len(JARS)} jars", wanted=wanted))
        java_files = [file for place in WRITTEN_IN_JAVA for file in sorted((directory / place).glob("*.java"))]
        return cls(java, sources, java_files, libs / "libs")

    @classmethod
    def versions_in(cls, directory: Path) -> dict[str, str]:
        """Of the checker, and of what it finds cycles with; such as 0.3.14-SNAPSHOT."""
        projects = {"Jepsen": directory / "jepsen/jepsen/project.clj", "Elle": directory / "elle/project.clj"}
        found = {name: re.search(r'defproject \S+ "(.+?)"', file.read_text()) for name, file in projects.items()}
        return {name: version[1] for name, version in found.items() if version is not None}

    def judge(self, histories: Sequence[Path]) -> dict[Path, Verdict]:
        """All of them in one process: it takes 20 s to load.

        Raises:
            ClusterError: It did not run through.
        """
        if not histories:
            return {}
        with tempfile.TemporaryDirectory(prefix="kwire-jepsen-") as directory:
            classes = Path(directory)
            self._compile(classes)
            path = ":".join(map(str, (NAMES, classes, *self._sources, self._libs / "*")))
            # Some of it makes classes while it loads, and writes them down.
            options = [MEMORY, f"-Dclojure.compile.path={classes}", "-cp", path]
            command = [str(self._java), *options, "clojure.main", str(PROGRAM), *map(str, histories)]
            timeout_s = STARTUP_TIMEOUT_S + JUDGING_TIMEOUT_S * len(histories)
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
            except subprocess.TimeoutExpired as error:
                raise ClusterError(f"Jepsen's checker has not ended after {timeout_s} s") from error
        verdicts = dict(map(Verdict.of_line, done.stdout.splitlines()))
        if done.returncode or len(verdicts) < len(set(histories)):
            where = histories[min(len(verdicts), len(histories) - 1)]
            raise ClusterError(f"Jepsen's checker broke at {where}: {first_error(done.stderr)}")
        return verdicts

    def _compile(self, classes: Path) -> None:
        javac = self._java.with_name("javac")
        found = str(javac) if javac.exists() else shutil.which("javac")
        if found is None:
            raise ClusterError(
                "Jepsen's checker is written in Java, too, and javac is missing: install a JDK (Debian and Ubuntu: "
                "apt install default-jdk-headless) and run this again"
            )
        options = ["-nowarn", "-d", str(classes), "-cp", str(self._libs / "*")]
        output, code = run([found, *options, *map(str, self._java_files)], timeout_s=COMPILE_TIMEOUT_S)
        if code:
            raise ClusterError(f"the Java part of Jepsen's checker does not compile: {first_error(output)}")


def missing_in(directory: Path) -> list[str]:
    """The repositories of which a directory has no checkout, or an empty one."""
    return [
        repository
        for repository, places in CHECKOUTS.items()
        if not all((directory / repository.partition("/")[2] / place).is_dir() for place in places)
    ]
