"""Which modules of kwire import one: whose tests may notice what is changed at its own level."""

from __future__ import annotations

import ast
from functools import cache

from tools.mutate.mutant import TOP


def importers_of(file: str) -> tuple[str, ...]:
    name = file.removesuffix(".py").replace("/", ".")
    return tuple(sorted(importer for importer, imported in _imports().items() if name in imported))


@cache
def _imports() -> dict[str, frozenset[str]]:
    return {
        path.relative_to(TOP).as_posix(): frozenset(
            node.module
            for node in ast.walk(ast.parse(path.read_bytes()))
            if isinstance(node, ast.ImportFrom) and node.module is not None
        )
        for path in sorted((TOP / "kwire").rglob("*.py"))
    }
