"""Measures how the code is cut: sizes, complexity, typing, comments. Prints a table; judges nothing.

python -m tools.measure_style [FOLDER ...]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

TOP = Path(__file__).resolve().parent.parent
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.BoolOp, ast.match_case)
_NESTING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


class Module(NamedTuple):
    """One file, read."""

    path: Path
    lines: list[str]
    tree: ast.Module

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


def read(folder: Path) -> list[Module]:
    modules = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        modules.append(Module(path, text.splitlines(), ast.parse(text)))
    return modules


def length(function: Function) -> int:
    """Lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def complexity(function: Function) -> int:
    return 1 + sum(isinstance(node, _BRANCHES) for node in ast.walk(function))


def nesting(node: ast.AST, depth: int = 0) -> int:
    deeper = depth + isinstance(node, _NESTING)
    return max((nesting(child, deeper) for child in ast.iter_child_nodes(node)), default=deeper)


def is_broad(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))


def spread(numbers: Iterable[int]) -> str:
    """Median, 90th and 99th percentile, and maximum."""
    ordered = sorted(numbers)
    at = [ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9, 0.99, 1.0)]
    return " / ".join(map(str, at))


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def rows(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    functions = [function for module in modules for function in module.functions]
    lines = [line.strip() for module in modules for line in module.lines if line.strip()]
    public = [function for function in functions if not function.name.startswith("_")]
    per_kloc = 1000 / len(lines)
    yield "modules", str(len(modules))
    yield "lines with something on them", str(len(lines))
    yield "module lines, median / p90 / p99 / max", spread(len(module.lines) for module in modules)
    yield "function lines, median / p90 / p99 / max", spread(map(length, functions))
    yield "functions with complexity > 10", str(sum(complexity(function) > 10 for function in functions))
    yield "functions nested deeper than 4", str(sum(nesting(function) > 4 for function in functions))
    yield "functions with a return annotation", share(sum(f.returns is not None for f in functions), len(functions))
    yield "public functions with a docstring", share(sum(map(has_docstring, public)), len(public))
    yield "comment lines", share(sum(line.startswith("#") for line in lines), len(lines))
    yield "type: ignore per 1,000 lines", f"{per_kloc * sum('type: ignore' in line for line in lines):.1f}"
    broad = sum(is_broad(node) for module in modules for node in ast.walk(module.tree))
    yield "broad excepts per 1,000 lines", f"{per_kloc * broad:.1f}"


def has_docstring(function: Function) -> bool:
    return ast.get_docstring(function) is not None


def main(folders: Sequence[str]) -> int:
    for folder in folders or ("kwire", "tests", "tools", "proofs", "benchmarks"):
        print(f"{folder}/")
        for name, figure in rows(read(TOP / folder)):
            print(f"  {name:<42} {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
