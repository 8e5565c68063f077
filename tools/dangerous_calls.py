"""Looks through the package for calls that run text or unpickle bytes: each has to be argued for here.

    python -m tools.dangerous_calls

SECURITY.md promises that nothing that comes from the network, a file or the environment is run or unpickled. This is
the check: `eval`, `exec`, `pickle` and their kin are in no module but those below, each with the reason why it keeps
the promise. An entry that is no longer needed fails as well.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent
PACKAGES = ("kwire", "pyspark_kwire", "pytest_kwire")
BUILTINS = frozenset({"eval", "exec", "compile", "__import__"})
# Everything of these modules but what writes.
MODULES = frozenset({"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "joblib", "code"})
WRITING = frozenset({"dumps", "PicklingError", "HIGHEST_PROTOCOL"})
CALLS = frozenset(
    {
        *("importlib.import_module", "runpy.run_path", "runpy.run_module"),
        *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
        *("yaml.load", "yaml.unsafe_load", "numpy.load", "np.load", "tempfile.mktemp"),
    }
)


class Place(NamedTuple):
    """A kind of call in a module."""

    module: str
    call: str


ALLOWED: Mapping[Place, tuple[int, str]] = {
    Place("kwire/protocol/source.py", "exec"): (1, "source that the compiler wrote from the messages' declarations"),
    Place("kwire/protocol/source.py", "compile"): (1, "the same"),
    Place("kwire/protocol/schema.py", "exec"): (1, "a constructor, written from the names of declared fields"),
    Place("kwire/protocol/schema.py", "compile"): (2, "the same, and the annotations of declared fields"),
    Place("kwire/protocol/schema.py", "eval"): (1, "these annotations, which are kwire's source"),
    Place("kwire/protocol/registry.py", "importlib.import_module"): (1, "the modules of kwire's folder of messages"),
    Place("kwire/imports_apart.py", "importlib.import_module"): (1, "modules by their names in the source"),
    Place("kwire/lazy_numpy.py", "importlib.import_module"): (1, "numpy"),
    Place("kwire/speedups.py", "importlib.import_module"): (1, "kwire._speedups, by its name in the source"),
    Place("kwire/network/gssapi.py", "importlib.import_module"): (
        1,
        "the one package gssapi, by its name in the source",
    ),
    Place("kwire/conformance/registry.py", "importlib.import_module"): (2, "the modules of kwire's folder of checks"),
    Place("kwire/testing/__init__.py", "importlib.import_module"): (1, "names of a table in the module"),
    Place("kwire/testing/cluster/handlers/__init__.py", "importlib.import_module"): (1, "the modules of that folder"),
    Place("kwire/spark/pipeline/targets.py", "importlib.import_module"): (1, "what the user names by --function"),
    Place("kwire/cli/registry_formats.py", "importlib.import_module"): (1, "what the user names by --protobuf"),
    Place("pyspark_kwire/server.py", "importlib.import_module"): (1, "names of a table in the module"),
    Place("pyspark_kwire/server.py", "marshal.loads"): (1, "from a process of the same user, which the socket proves"),
    Place("pyspark_kwire/server.py", "runpy.run_module"): (1, "the same: it is a command line, as Spark starts it"),
}


def main() -> int:
    found = Counter(place for package in PACKAGES for path in files(package) for place in calls_in(path))
    problems = list(disagreements(found, ALLOWED))
    print("\n".join(problems) or f"{len(ALLOWED)} kinds of calls, each argued for")
    return 1 if problems else 0


def files(package: str) -> Iterator[Path]:
    return iter(sorted((TOP / package).rglob("*.py")))


def calls_in(path: Path) -> Iterator[Place]:
    """Each such call in a module; `shell=True` counts, whatever is called."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = dict(imported_names(tree))
    module = path.relative_to(TOP).as_posix() if path.is_relative_to(TOP) else path.name
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if any(word.arg == "shell" for word in node.keywords):
            yield Place(module, "shell=")
        if any(word.arg == "allow_pickle" for word in node.keywords):
            yield Place(module, "allow_pickle=")
        name = dotted_name(node.func, names)
        if name is not None and is_dangerous(name):
            yield Place(module, name)


def imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What a module's names stand for, as far as imports say: `from pickle import loads as read` is pickle.loads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def dotted_name(called: ast.expr, names: Mapping[str, str]) -> str | None:
    match called:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Attribute(value=value, attr=attribute):
            outer = dotted_name(value, names)
            return None if outer is None else f"{outer}.{attribute}".removeprefix("builtins.")
        case _:
            return None


def is_dangerous(name: str) -> bool:
    module, _, function = name.rpartition(".")
    return name in BUILTINS | CALLS or (module in MODULES and function not in WRITING)


def disagreements(found: Mapping[Place, int], allowed: Mapping[Place, tuple[int, str]]) -> Iterator[str]:
    """What is there and not allowed, or more often than allowed; what is allowed and not there."""
    for place in sorted({*found, *allowed}):
        count, most = found.get(place, 0), allowed[place][0] if place in allowed else 0
        if count > most:
            yield f"{place.module}: {place.call} is there {count} times, and allowed {most} times; see SECURITY.md"
        elif count < most:
            yield f"{place.module}: {place.call} is allowed {most} times, and there {count} times: take it off the list"


if __name__ == "__main__":
    sys.exit(main())
