"""Changes the code of modules that are imported already, in place: nobody who holds a function or a table notices."""

from __future__ import annotations

import ast
import gc
import sys
from collections import defaultdict
from collections.abc import Iterable
from types import CodeType, FunctionType

from tools.mutate.mutant import TOP, Mutant


class Planting:
    """Plants mutants into the functions of this process.

    Args:
        files: those whose functions may be changed; their modules are imported.
    """

    def __init__(self, files: Iterable[str]) -> None:
        names = {str(TOP / file) for file in files}
        self._functions: defaultdict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename in names:
                self._functions[each.__code__.co_filename, each.__code__.co_qualname].append(each)

    def fits(self, mutant: Mutant) -> bool:
        """Whether it can be planted in place: not where the changed code uses other variables of those around it."""
        if not mutant.outer:
            return True
        changed, functions = self._found(mutant)
        return (
            changed is not None
            and bool(functions)
            and all(function.__code__.co_freevars == changed.co_freevars for function in functions)
        )

    def plant(self, mutant: Mutant) -> None:
        if not mutant.outer:
            _change_module(mutant)
            return
        changed, functions = self._found(mutant)
        assert changed is not None
        for function in functions:
            function.__code__ = changed

    def _found(self, mutant: Mutant) -> tuple[CodeType | None, list[FunctionType]]:
        code = mutant.compiled()
        changed = None if code is None else _code_named(code, mutant.outer)
        return changed, self._functions.get((str(TOP / mutant.file), mutant.outer), [])


def _code_named(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name:
                return constant
            if (inner := _code_named(constant, name)) is not None:
                return inner
    return None


def _change_module(mutant: Mutant) -> None:
    """Runs its assignments again, with the classes that are there, and puts what comes out where the old values are."""
    module = sys.modules[mutant.file.removesuffix(".py").replace("/", ".")]
    tree = ast.parse(mutant.applied((TOP / mutant.file).read_bytes()))
    kept = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
    tree.body = [node for node in tree.body if not isinstance(node, kept)]
    new = dict(vars(module))
    exec(compile(tree, mutant.file, "exec"), new)
    for name, old in list(vars(module).items()):
        if new[name] is not old and not name.startswith("__"):
            _replace(name, old, new[name])


def _replace(name: str, old: object, new: object) -> None:
    match old, new:
        case dict(), dict():
            old.clear()
            old.update(new)
        case list(), list():
            old[:] = new
        case _ if type(old).__module__ == "kwire.states.machine":
            vars(old).clear()
            vars(old).update(vars(new))
        case _:
            for module in list(sys.modules.values()):
                if vars(module).get(name) is old:
                    setattr(module, name, new)
