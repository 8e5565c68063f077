"""What is changed into what: the mistakes that mutants are made of.

Each is one that a person makes: a bound that is off by one, a condition that is forgotten or turned round, a call that
is left out, a wrong default, the wrong end of a `min`, a row of a table that leads elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

Position = tuple[int, int]

TOKENS: Mapping[str, str] = {
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
    "Eq": "==",
    "NotEq": "!=",
    "Is": "is",
    "IsNot": "is not",
    "In": "in",
    "NotIn": "not in",
    "And": "and",
    "Or": "or",
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "BitOr": "|",
    "BitAnd": "&",
}
BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPPOSITES = {"==": "!=", "is": "is not", "in": "not in", "<": ">=", ">": "<="}
OPPOSITES |= {opposite: token for token, opposite in OPPOSITES.items()}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "|": "&", "&": "|"}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Change:
    """A replacement of one token, or of everything, between two positions of a source.

    Args:
        token: what is replaced between the two positions, where there may be parentheses as well; everything, if empty.
        is_with_comma: whether a comma behind it goes with it.
    """

    kind: str
    first: Position
    last: Position
    new: str
    token: str = ""
    is_with_comma: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """The enums of a module of tables, by the letters they have there: `S, E, F = State, Event, Effect`."""

    by_name: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(tree: ast.Module) -> Members:
        enums = {
            node.name: tuple(
                target.id
                for line in node.body
                if isinstance(line, ast.Assign)
                for target in line.targets
                if isinstance(target, ast.Name)
            )
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        found = dict(enums)
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=letters)], value=ast.Tuple(elts=names)):
                    for letter, name in zip(letters, names, strict=False):
                        if isinstance(letter, ast.Name) and isinstance(name, ast.Name) and name.id in enums:
                            found[letter.id] = enums[name.id]
                case _:
                    pass
        return Members(found)

    def another(self, node: ast.Attribute) -> str | None:
        """The member behind this one, which is no better or worse than the others."""
        members = self.by_name.get(node.value.id, ()) if isinstance(node.value, ast.Name) else ()
        if node.attr not in members or len(members) < 2:
            return None
        return members[(members.index(node.attr) + 1) % len(members)]


def changes_of_statement(node: ast.stmt, *, is_init: bool) -> Iterator[Change]:
    """A statement that is left out; a way out that leads elsewhere. What `__init__` sets is not left out: all fails."""
    match node:
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield _whole(value, "returns None", "None")
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Delete():
            yield _whole(node, "left out", "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) if not is_init:
            yield _whole(node, "left out", "pass")
        case ast.AugAssign(target=target, op=operator, value=value):
            if not is_init:
                yield _whole(node, "left out", "pass")
            yield from _tokens(target, value, "arithmetic", operator, ARITHMETIC)
        case ast.Break():
            yield _whole(node, "goes on", "continue")
        case ast.Continue():
            yield _whole(node, "stops", "break")
        case ast.If(test=test):
            yield from _forced(test)
        case ast.While(test=test) if not isinstance(test, ast.Constant):
            yield _whole(test, "never", "False")
        case _:
            pass


def changes_of_expression(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.IfExp(test=test):
            yield from _forced(test)
        case ast.comprehension(ifs=conditions):
            for condition in conditions:
                yield from _forced(condition)
        case ast.match_case(guard=ast.expr() as guard):
            yield from _forced(guard)
        case ast.MatchOr(patterns=patterns):
            for pattern, following in pairwise(patterns):
                yield Change("case left out", _begin(pattern), _begin(following), "")
            yield Change("case left out", _end(patterns[-2]), _end(patterns[-1]), "")
        case ast.Constant():
            yield from _other_constant(node)
        case ast.Call(func=ast.Name(id=name) as called) if name in CALLS:
            yield _whole(called, "other end", CALLS[name])
        case _:
            yield from _other_operator(node)


def _other_operator(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield from _tokens(left, right, "bound", operator, BOUNDS)
            yield from _tokens(left, right, "opposite", operator, OPPOSITES)
        case ast.BinOp(left=left, op=operator, right=right) if not (_is_text(left) or _is_text(right)):
            yield from _tokens(left, right, "arithmetic", operator, ARITHMETIC)
        case ast.BoolOp(op=operator, values=values):
            for first, second in pairwise(values):
                yield from _tokens(first, second, "and/or", operator, {"and": "or", "or": "and"})
        case ast.UnaryOp(op=ast.Not()):
            yield Change("not", _begin(node), _end(node), "", token="not")
        case _:
            pass


def changes_of_table(node: ast.expr, members: Members) -> Iterator[Change]:
    """Of what stands at the level of a module: an element that is missing, a row that leads elsewhere."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements) if len(
            elements
        ) > 1 or not isinstance(node, ast.Tuple):
            for element in elements:
                yield _whole(element, "element left out", "", is_with_comma=True)
        case ast.Tuple(elts=[_]):
            yield _whole(node, "element left out", "()")
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                first = _before_stars(value) if key is None else _begin(key)
                yield Change("entry left out", first, _end(value), "", is_with_comma=True)
        case ast.Attribute() if (other := members.another(node)) is not None:
            yield _whole(node, "another member", f"{ast.unparse(node.value)}.{other}")
        case _:
            pass


def _forced(test: ast.expr) -> Iterator[Change]:
    yield _whole(test, "always", "True")
    yield _whole(test, "never", "False")


def _other_constant(node: ast.Constant) -> Iterator[Change]:
    match node.value:
        case bool(value):
            yield _whole(node, "constant", str(not value))
        case int(number) | float(number):
            yield _whole(node, "constant", repr(number + 1))
        case str(text) if text and " " not in text:
            yield _whole(node, "constant", repr(f"{text}X"))
        case _:
            pass


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _whole(node: ast.expr | ast.stmt, kind: str, new: str, *, is_with_comma: bool = False) -> Change:
    return Change(kind, _begin(node), _end(node), new, is_with_comma=is_with_comma)


def _tokens(
    left: ast.expr,
    right: ast.expr,
    kind: str,
    operator: ast.cmpop | ast.operator | ast.boolop,
    others: Mapping[str, str],
) -> Iterator[Change]:
    token = TOKENS.get(type(operator).__name__, "")
    if token in others:
        yield Change(kind, _end(left), _begin(right), others[token], token=token)


def _begin(node: ast.expr | ast.stmt | ast.pattern) -> Position:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt | ast.pattern) -> Position:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _before_stars(value: ast.expr) -> Position:
    return value.lineno, value.col_offset - 2
