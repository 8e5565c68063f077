"""Downloads Apache Kafka's jars once, from Maven's repository, and formats the storage that new brokers start with.

`cluster` calls `ensure_kafka` before it starts brokers. `ensure_tools` downloads the command line programs that Kafka
is tested with. A version's directory is put in place by one rename when everything in it is complete, under a file
lock, so processes, and clones, may share a cache.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

KAFKA_VERSION = "4.4.0"  # the in-process cluster is the same release by default
HOME = Path(__file__).resolve().parents[3]  # what holds the package: a clone, or where packages are installed
OLDEST_JAVA = 17  # brokers from Kafka 4.0 on (KIP-1013)
DOWNLOAD_TIMEOUT_S = 900
FORMAT_TIMEOUT_S = 120
# Kafka logs through slf4j and its jars bring no back end; this one writes to stderr, which is the broker's log file.
SLF4J_VERSION = "1.7.36"

# Without kafka-tools-api, the interfaces of plug-ins of the tools: the pom of 4.4.0 names it, and that release did not
# publish it. No broker needs it, nor do the tools that are used here.
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kwire</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{slf4j}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{kafka}</version>
      <exclusions>
        <exclusion>
          <groupId>org.apache.kafka</groupId>
          <artifactId>kafka-tools-api</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
  </dependencies>
</project>
"""

# Where the format tool puts it: since Kafka 4.4 it is the first snapshot of the metadata's log (KIP-1170).
CHECKPOINTS = ("bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")

# Enough for the format tool to accept; ids, ports and roles of the real nodes differ and do not go into its output.
FORMAT_PROPERTIES = """\
process.roles=broker,controller
node.id=0
controller.quorum.voters=0@127.0.0.1:1
listeners=BROKER://127.0.0.1:0,CONTROLLER://127.0.0.1:1
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs=data
"""


class ClusterError(Exception):
    """A cluster cannot be started; the message is one sentence that says why and what to do."""


class MissingSoftwareError(ClusterError):
    """Java, Maven or the jars are missing on this machine."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The initial metadata of a cluster, as the format tool has written it; `path` is relative to a log directory."""

    path: str
    content: bytes = field(repr=False)

    @classmethod
    def found_in(cls, directory: Path) -> Checkpoint | None:
        """The checkpoint of a log directory, if it has one."""
        found = (path for path in CHECKPOINTS if (directory / path).exists())
        return next((cls(path, (directory / path).read_bytes()) for path in found), None)

    def write_to(self, directory: Path) -> None:
        """Write the checkpoint into a log directory."""
        file = directory / self.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """One version of Kafka, ready to run.

    `checkpoint` is the file the format tool wrote: the feature levels a new cluster starts with. It is the same for
    every node, so each gets a copy, which saves a JVM start (1 s) per node.
    """

    version: str
    java: Path
    libs: Path
    checkpoint: Checkpoint


def kafka_version() -> str:
    """The version of Kafka to use: the environment's `KAFKA_VERSION`, else the version that the tests are written
    for."""
    version = os.environ.get("KAFKA_VERSION") or KAFKA_VERSION
    if not re.fullmatch(r"\d+\.\d+\.\d+(-[A-Za-z0-9]+)?", version):
        raise ClusterError(f"KAFKA_VERSION has to look like {KAFKA_VERSION}, not {version!r}")
    return version


def cache_dir() -> Path:
    """The directory of downloads: `KWIRE_CACHE`, else a clone's own `.cache`, else the user's cache directory."""
    if chosen := os.environ.get("KWIRE_CACHE"):
        return Path(chosen).expanduser().absolute()
    if (HOME / "scripts" / "kafka").exists():
        return HOME / ".cache"
    wanted = Path(os.environ.get("XDG_CACHE_HOME", ""))  # which counts only if it is absolute
    return (wanted if wanted.is_absolute() else Path.home() / ".cache") / "kwire"


def ensure_kafka(version: str | None = None, cache: Path | None = None) -> Kafka:
    """Kafka of `version`, downloaded if the cache lacks it.

    Raises:
        MissingSoftwareError: no Java, no Maven, or the download failed.
    """
    version = version or kafka_version()
    directory = (cache or cache_dir()) / "kafka" / version
    java = find_java()

    def fill(part: Path) -> None:
        download("kafka_2.13", version, part)
        format_storage(java, part / "libs", part).write_to(part)

    ensure(directory, fill)
    checkpoint = Checkpoint.found_in(directory)
    if checkpoint is None:
        raise ClusterError(f"{directory} is incomplete: remove it and run this again")
    return Kafka(version=version, java=java, libs=directory / "libs", checkpoint=checkpoint)


def ensure_tools(version: str | None = None, cache: Path | None = None) -> Path:
    """The directory with the jars of Kafka's command line programs and of all they need, downloaded if missing.

    Raises:
        MissingSoftwareError: no Maven, or the download failed.
    """
    version = version or kafka_version()
    directory = (cache or cache_dir()) / "kafka-tools" / version
    ensure(directory, lambda part: download("kafka-tools", version, part))
    return directory / "libs"


def ensure(directory: Path, fill: Callable[[Path], None]) -> None:
    """Makes `directory` if it does not exist. It is filled under another name and renamed, so it is complete once it
    exists."""
    if directory.exists():
        return
    with file_lock(directory.with_name(f"{directory.name}.lock")):
        if not directory.exists():  # another process may have made it while this one waited
            install(directory, fill)


def install(directory: Path, fill: Callable[[Path], None]) -> None:
    for leftover in directory.parent.glob(f"{directory.name}.part-*"):  # the caller holds the lock
        shutil.rmtree(leftover, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{directory.name}.part-", dir=directory.parent))
    try:
        fill(part)
        part.chmod(0o755)  # a shared cache serves other users too
        part.rename(directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def download(artifact: str, version: str, part: Path) -> None:
    """Lets Maven copy one of Kafka's artifacts with its dependencies into `part/libs`."""
    pom = POM.format(slf4j=SLF4J_VERSION, artifact=artifact, kafka=version)
    copy_jars(pom, part, title=f"Apache Kafka {version}", detail=artifact, wanted=f"{artifact}-{version}.jar")


def copy_jars(pom: str, part: Path, *, title: str, detail: str, wanted: str) -> None:
    """Lets Maven copy the artifacts of a pom with their dependencies into `part/libs`.

    Args:
        pom: the text of the file.
        part: a directory that exists.
        title: what is downloaded, for progress and error messages.
        detail: which part of it.
        wanted: the jar that has to exist afterwards.

    Raises:
        MissingSoftwareError: no Maven, or the download failed.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingSoftwareError(
            f"Maven is needed once, to download {title}: install it (Debian and Ubuntu: "
            "apt install maven, macOS: brew install maven) and run this again"
        )
    # Not a log line, which few would see: it takes minutes, and users should know what they wait for.
    sys.stderr.write(f"downloading {title}, {detail} (once, some 50 MB) ...\n")
    sys.stderr.flush()
    file = part / "pom.xml"
    file.write_text(pom)
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    # -U: Maven remembers a failed download for a day, and this one is asked for again after the network came back.
    options = ["-B", "-q", "-U", "-Dstyle.color=never", "-DincludeScope=runtime", f"-DoutputDirectory={part / 'libs'}"]
    output, code = run([maven, *options, "-f", str(file), copy], cwd=part, timeout_s=DOWNLOAD_TIMEOUT_S)
    if code:
        raise MissingSoftwareError(
            f"Maven could not download {title}; is its repository within reach of this machine? "
            f"It said: {first_error(output)}"
        )
    damaged = sorted(jar.name for jar in (part / "libs").glob("*.jar") if not zipfile.is_zipfile(jar))
    if damaged or not (part / "libs" / wanted).exists():
        raise MissingSoftwareError(
            f"Maven's copy of {title} is incomplete (damaged: {', '.join(damaged) or 'none'}); "
            "remove org/apache from its local repository and run this again"
        )


def format_storage(java: Path, libs: Path, directory: Path, options: Sequence[str] = ()) -> Checkpoint:
    """Runs Kafka's own format tool in `directory`. Returns the checkpoint for new nodes that it has written.

    Args:
        java: the path of `java`.
        libs: the release's jars.
        directory: a directory for the output of the tool.
        options: further options of the tool, such as users.

    Raises:
        ClusterError: the tool has failed.
    """
    (directory / "format.properties").write_text(FORMAT_PROPERTIES)
    tool = [str(java), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", "kafka.tools.StorageTool"]
    arguments = ["format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--config", "format.properties", *options]
    output, code = run([*tool, *arguments], cwd=directory, timeout_s=FORMAT_TIMEOUT_S)
    checkpoint = Checkpoint.found_in(directory / "data")
    if code or checkpoint is None:
        raise ClusterError(f"Kafka's format tool failed: {first_error(output)}")
    return checkpoint


def find_java() -> Path:
    """The `java` of JAVA_HOME or the PATH, if it is new enough."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    # macOS has a `java` that only says that Java is not installed, so it has to be run.
    output, code = run([found, "-version"], timeout_s=60) if found else ("", 1)
    if found is None or code:
        raise MissingSoftwareError(
            f"Java {OLDEST_JAVA} or newer is needed to run a real Kafka broker: install it (Debian and Ubuntu: "
            f"apt install default-jre-headless, macOS: brew install openjdk@{OLDEST_JAVA}) and run this again"
        )
    version = java_version(output)
    if version is not None and version < OLDEST_JAVA:
        raise MissingSoftwareError(
            f"Kafka's broker needs Java {OLDEST_JAVA} or newer, and {found} is Java {version}: install a newer one, "
            "or set JAVA_HOME to it"
        )
    return Path(found)


def java_version(output: str) -> int | None:
    """The major version in what `java -version` prints; None when it prints something else."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None


def first_error(output: str) -> str:
    """The most telling line: the first that is marked as an error, else the last."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)  # Maven writes colours even if told not to
    lines = [line.strip() for line in plain.splitlines() if line.strip() not in {"", "[ERROR]"}]
    marked = [line for line in lines if line.startswith("[ERROR]") or "Exception" in line]
    return (marked or lines[-1:] or ["nothing"])[0].removeprefix("[ERROR]").strip()[:500]


def run(command: list[str], *, cwd: Path | None = None, timeout_s: float) -> tuple[str, int]:
    """Run a program. Returns its output (both streams) and exit code; if it cannot start, or hangs, it counts as
    failed."""
    try:
        done = subprocess.run(
            command, cwd=cwd, timeout=timeout_s, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end after {timeout_s:.0f} s", 1
    except OSError as error:
        return str(error), 1
    return done.stdout, done.returncode


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Holds an exclusive lock; the system gives it back when the process dies, however it dies.

    Raises:
        ClusterError: the directory, which is one of downloads, cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise ClusterError(
            f"downloads cannot be kept in {path.parent}: {error.strerror}; set KWIRE_CACHE to a directory that can be "
            "written"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
