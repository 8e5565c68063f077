"""A consumer of a topic, in ten lines. It commits by itself, and ends when nothing has come for a while."""

from __future__ import annotations

from arguments import parse

from kwire import Consumer


def main(argv: list[str] | None = None) -> None:
    wanted = parse("A consumer of a topic, in ten lines.", argv)
    consumer: Consumer[bytes, bytes] = Consumer(
        wanted.topic,
        bootstrap_servers=wanted.bootstrap_servers,
        group_id=wanted.group_id,
        auto_offset_reset="earliest",
    )
    with consumer:
        while records := consumer.poll(wanted.idle_seconds):
            for record in records:
                print(f"{record.topic_partition}@{record.offset}: {record.key!r} {record.value!r}")


if __name__ == "__main__":
    main()
