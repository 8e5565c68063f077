"""The arguments that all examples take."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace


class Wanted(Namespace):
    """What the parser fills in, under its types."""

    bootstrap_servers: str
    topic: str
    group_id: str
    idle_seconds: float


def parse(description: str, argv: list[str] | None) -> Wanted:
    parser = ArgumentParser(description=description)
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT[,HOST:PORT...]")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group-id", default="examples")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="end when nothing has come for so long")
    return parser.parse_args(argv, Wanted())
