"""The commands of `kwire`, each of which is in a file of its own; `kwire.cli.main` runs them.

Each command imports what it needs, so that `kwire --help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kwire import speedups
from kwire.cli.admin.groups_command import groups_commands
from kwire.cli.admin.produce_command import produce_records
from kwire.cli.admin.topics_command import topics_commands
from kwire.cli.audit import audit_history
from kwire.cli.conformance import judge_broker
from kwire.cli.consume import consume_topics
from kwire.cli.demo import run_demo
from kwire.cli.describe import describe_process
from kwire.cli.doctor.command import examine_connection
from kwire.cli.fake import run_fake_cluster
from kwire.cli.faults import faults_commands
from kwire.cli.help_texts import make_plain
from kwire.cli.pipeline import run_pipeline
from kwire.cli.show_config import print_settings
from kwire.cli.usage_hints import GroupWithHints
from kwire.cli.wire import wire_commands
from kwire.version import __version__

app = typer.Typer(
    cls=GroupWithHints,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take [spark] for a style, and leave it out
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command("demo")(run_demo)
app.command("consume")(consume_topics)
app.command("produce")(produce_records)
app.command("describe")(describe_process)
app.command("doctor")(examine_connection)
app.command("config")(print_settings)
app.command("conformance")(judge_broker)
app.command("fake")(run_fake_cluster)
app.command("audit")(audit_history)
app.command("pipeline")(run_pipeline)
app.add_typer(topics_commands, name="topics")
app.add_typer(groups_commands, name="groups")
app.add_typer(faults_commands, name="faults")
app.add_typer(wire_commands, name="wire")
make_plain(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kwire {__version__}\n{speedups.status()}")
        raise typer.Exit


@app.callback()
def kwire(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Read Kafka topics, look at topics and groups, and find out what keeps a client from reading.

    `kwire demo` needs no broker; `kwire COMMAND -h` explains a command.
    """
