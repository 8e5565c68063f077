"""The jars of Spark's own Kafka source, which kwire's is compared with: got once, by Maven, into the cache.

Called by whatever makes a session with both sources. Each jar is named by itself, with nothing of what it asks for:
Spark has the rest already, and the set's own poms name each other in versions that were never published together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.testing.kafka.jars import cache_dir, copy_jars, ensure

if TYPE_CHECKING:
    from pathlib import Path

SPARK_VERSION = "4.2.0"
SOURCE = "spark-sql-kafka-0-10_2.13"
# Group, artifact, version.
JARS = (
    ("org.apache.spark", SOURCE, SPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)

DEPENDENCY = """\
    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
      <exclusions>
        <exclusion>
          <groupId>*</groupId>
          <artifactId>*</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
"""
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kwire</groupId>
  <artifactId>spark-kafka-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""


def ensure_spark_jars(cache: Path | None = None) -> list[Path]:
    """The jars of Spark's `kafka` source, downloaded if the cache lacks them.

    Raises:
        MissingSoftwareError: no Maven, or the download failed.
    """
    directory = (cache or cache_dir()) / "spark-kafka" / SPARK_VERSION
    pom = POM.format(dependencies="".join(DEPENDENCY.format(*jar) for jar in JARS))
    title, wanted = f"Spark's Kafka source {SPARK_VERSION}", f"{SOURCE}-{SPARK_VERSION}.jar"
    ensure(directory, lambda part: copy_jars(pom, part, title=title, detail=f"{len(JARS)} jars", wanted=wanted))
    return sorted((directory / "libs").glob("*.jar"))
