"""Apache Kafka where its system tests look for it: its programs from a checkout, its jars from Maven's repository."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

from kwire.testing.kafka.jars import cache_dir, copy_jars, ensure

NEW_PLACE = "org.apache.kafka.tools"
_OLD_PLACE = re.compile(r" (kafka\.(?:admin|tools)\.\w+) ")

# Kafka's system tests set up logging by files of log4j 1, and read what comes of it: reload4j still understands them.
# kafka-tools-api: as in kwire.testing.kafka.jars.
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kwire</groupId>
  <artifactId>kafka-for-kafkatest</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-reload4j</artifactId>
      <version>1.7.36</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{kafka}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
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


def ensure_jars(version: str) -> Path:
    """The directory with the jars of brokers and tools of a release, downloaded if the cache lacks it.

    Raises:
        MissingSoftwareError: no Maven, or the download failed.
    """
    directory = cache_dir() / "kafkatest" / version

    def fill(part: Path) -> None:
        copy_jars(
            POM.format(kafka=version),
            part,
            title=f"Apache Kafka {version}",
            detail="for kafkatest",
            wanted=f"kafka_2.13-{version}.jar",
        )

    ensure(directory, fill)
    return directory / "libs"


def install(version: str, checkout: Path, folder: Path) -> None:
    """Puts the programs and the jars into `folder`, as a release's archive has them."""
    libs = ensure_jars(version)
    shutil.copytree(checkout / "bin", folder / "bin")
    follow_moves(folder / "bin", libs / f"kafka-tools-{version}.jar")
    shutil.copytree(checkout / "config", folder / "config")
    (folder / "libs").symlink_to(libs)


def follow_moves(programs: Path, tools: Path) -> None:
    """Scripts of an older Kafka name classes where they were then; what the jar of the tools has is there now."""
    with zipfile.ZipFile(tools) as jar:
        known = set(jar.namelist())
    for script in programs.glob("*.sh"):
        text = script.read_text()
        for old in _OLD_PLACE.findall(text):
            name = old.rpartition(".")[2]
            if f"{NEW_PLACE.replace('.', '/')}/{name}.class" in known:
                text = text.replace(f" {old} ", f" {NEW_PLACE}.{name} ")
        script.write_text(text)
