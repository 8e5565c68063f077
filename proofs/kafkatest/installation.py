"""Apache Kafka where its system tests look for it: its programs from a checkout, its jars from Maven's repository."""

from __future__ import annotations

import shutil
from pathlib import Path

from kwire.testing.kafka.jars import cache_dir, copy_jars, ensure

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
    shutil.copytree(checkout / "bin", folder / "bin")
    shutil.copytree(checkout / "config", folder / "config")
    (folder / "libs").symlink_to(ensure_jars(version))
