"""What SECURITY.md promises of `eval`, `exec` and `pickle` is looked after: such a call does not get in unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.dangerous_calls import ALLOWED, Place, calls_in, disagreements, main


def test_the_package_keeps_the_promise() -> None:
    assert main() == 0


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("eval(text)", "eval"),
        ("import builtins\nbuiltins.exec(text)", "exec"),
        ("import pickle\npickle.loads(data)", "pickle.loads"),
        ("import pickle as p\np.Unpickler(file)", "pickle.Unpickler"),
        ("from pickle import loads as read\nread(data)", "pickle.loads"),
        ("import subprocess\nsubprocess.run(text, shell=True)", "shell="),
        ("import numpy\nnumpy.load(file)", "numpy.load"),
        ("def f():\n    from marshal import load\n    return load(file)", "marshal.load"),
    ],
)
def test_such_a_call_is_found(source: str, call: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(source)
    assert list(calls_in(module)) == [Place("module.py", call)]


def test_what_only_writes_or_is_called_alike_is_none(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import pickle, re\npickle.dumps(x)\nre.compile(x)\nmodel.eval()\nself.exec(1)\n")
    assert list(calls_in(module)) == []


def test_one_call_more_than_argued_for_fails_and_one_less() -> None:
    place = Place("kwire/a.py", "exec")
    assert list(disagreements({place: 2}, {place: (1, "why")})) == [
        "kwire/a.py: exec is there 2 times, and allowed 1 times; see SECURITY.md"
    ]
    assert list(disagreements({}, {place: (1, "why")})) == [
        "kwire/a.py: exec is allowed 1 times, and there 0 times: take it off the list"
    ]


def test_each_exception_has_a_reason() -> None:
    assert all(reason for _count, reason in ALLOWED.values())
