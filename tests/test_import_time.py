"""What `import kwire` loads, and what it leaves for later. Times differ from machine to machine, so the modules count.

`import kwire` brings what users name. The network thread loads its own world when it starts, and decoding comes while
the first records are on their way.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kwire
from kwire import speedups

# Packages that take long to load, or that only some calls need.
HEAVY = ("construct", "cramjam", "fastcrc", "isal", "numpy", "pyarrow", "trio", "typer", "zstandard")
NEVER_NEEDED = ("asyncio", "difflib", "pdb", "rich", "socket", "ssl", "subprocess", "unittest")
NETWORK_SIDE = ("kwire.assignors", "kwire.cluster", "kwire.managers", "kwire.network.run", "kwire.protocol")


def loaded_by(code: str) -> frozenset[str]:
    """The modules that a fresh interpreter has after the code."""
    script = f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')"
    # -S: what the environment's .pth files import is not ours. They may also be how kwire is found.
    path = [str(Path(kwire.__file__).parents[1]), *sys.path]
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {path!r}\n{script}"]
    return frozenset(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    return loaded_by("import kwire")


@pytest.mark.slow
@pytest.mark.parametrize("module", [*HEAVY, *NEVER_NEEDED, *NETWORK_SIDE])
def test_importing_kwire_does_without(imported: frozenset[str], module: str) -> None:
    assert "kwire.consumer.sync" in imported
    assert module not in imported


@pytest.mark.slow
def test_the_network_thread_needs_no_numpy() -> None:
    """It looks at the headers of batches only."""
    imported = loaded_by("import kwire.network.run")
    assert "trio" in imported
    assert imported.isdisjoint({"numpy", "cramjam", "fastcrc", "isal", "zstandard"})


@pytest.mark.slow
def test_a_member_that_does_not_lead_a_sticky_group_needs_no_numpy() -> None:
    imported = loaded_by(
        "from kwire.assignors import resolve\n"
        "for assignor in resolve(['sticky', 'cooperative-sticky']):\n"
        "    assignor.subscription_user_data(['topic'], [], 1)"
    )
    assert "kwire.assignors.sticky" in imported
    assert imported.isdisjoint({"numpy", "kwire.assignors.best_plan"})


@pytest.mark.slow
@pytest.mark.parametrize(("timeout", "loads"), [(0.0, False), (1.0, True)])
def test_waiting_for_records_loads_what_decodes_them(timeout: float, loads: bool) -> None:
    """Otherwise the first records would wait for it. Who does not want to wait, must not wait for this either.

    A second is enough for a slow machine to come to the wait: a poll whose time is over before has nothing to load.
    """
    imported = loaded_by(
        "import contextlib, kwire\n"
        "from kwire.errors import BootstrapError\n"
        "with contextlib.suppress(BootstrapError):\n"
        "    with kwire.Consumer('topic', bootstrap_servers='127.0.0.1:1', group_id='group') as consumer:\n"
        f"        consumer.poll({timeout})"
    )
    decoding = {"fastcrc", "kwire.fetching.open_fetch"} | ({"numpy"} if speedups.module is None else set())
    assert decoding <= imported if loads else imported.isdisjoint(decoding)


def test_all_public_names_are_there_without_being_asked_for() -> None:
    """No lazy attributes: what an editor, `dir()` and a type checker see is what there is."""
    assert set(kwire.__all__) <= set(vars(kwire))


@pytest.mark.slow
def test_arrow_columns_are_made_without_pandas() -> None:
    """`pa.array` of a numpy array imports pandas where it is installed: 0.3 s in the first `to_arrow()`."""
    tests = Path(__file__).parent / "fetching"
    imported = loaded_by(
        f"import sys; sys.path.insert(0, {str(tests)!r})\n"
        "from test_columns import ROWS, chunk_of\n"
        "from kwire.fetching.columns import Records\n"
        "assert Records([chunk_of(ROWS)]).to_arrow().num_rows == len(ROWS)"
    )
    assert "pyarrow" in imported
    assert "pandas" not in imported


@pytest.mark.slow
def test_a_verifiable_consumer_starts_without_the_commands_of_kwire() -> None:
    """Half of its start would be theirs, and system tests start many."""
    imported = loaded_by("import kwire.verifiable_consumer.command")
    assert "kwire.cli.output" in imported
    assert imported.isdisjoint({"typer", "kwire.cli.commands", "kwire.cli.consume", "kwire.testing"})


@pytest.mark.slow
def test_planning_a_stream_of_spark_needs_nothing_of_reading() -> None:
    """Spark starts a process to plan each stream, and the stream waits for it."""
    imported = loaded_by("from pyspark_kwire import DefaultSource; import kwire.spark.stream")
    assert "kwire.spark.resolve" in imported
    assert imported.isdisjoint(
        {"kwire.spark.range_reader", "kwire.fetching.arrow", "kwire.protocol", "cramjam", "difflib", "pyarrow.fs"}
    )


@pytest.mark.slow
def test_the_python_of_sparks_processes_is_there_at_once() -> None:
    """Each of them waits for it, be it kwire's or not."""
    imported = loaded_by("import pyspark_kwire.python")
    assert imported.isdisjoint({"kwire", "pyspark", "typing", "hashlib", "json"})


@pytest.mark.slow
def test_runs_of_pytest_that_do_without_a_cluster_load_nothing_of_kwire() -> None:
    """Where kwire is installed, pytest loads its plugin into every run: that took as long as all of kwire."""
    assert loaded_by("import pytest_kwire").isdisjoint({"kwire", "trio", "numpy"})
