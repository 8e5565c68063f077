"""Commands for Kafka's own command line programs, with which kwire is compared, or shares groups.

The fault harness, the benchmarks and the integration tests call it. The programs run in a JVM of their own, which is
told to start fast rather than to get fast.
"""

from __future__ import annotations

from kwire.testing.kafka.jars import ensure_tools, find_java

VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


def tools_class_path() -> str:
    """The class path of Kafka's programs; downloads them if the cache lacks them.

    Raises:
        MissingSoftwareError: no Maven, or the download failed.
    """
    return f"{ensure_tools()}/*"


def verifiable_consumer_command(*arguments: str, log_level: str = "warn") -> list[str]:
    """The command that starts Java's VerifiableConsumer: events on stdout, its log on stderr.

    Raises:
        MissingSoftwareError: no Java, no Maven, or the download failed.
    """
    logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    # Otherwise the locale decides, and in that of many a container all but ASCII comes out as question marks. The first
    # is what Java 17 looks at, the second what later ones do.
    utf8 = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", logging, *utf8)
    return [str(find_java()), *options, "-cp", tools_class_path(), VERIFIABLE_CONSUMER, *arguments]
