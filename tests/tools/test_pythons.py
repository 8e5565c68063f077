"""`scripts/pythons`: the Python that is found, what is counted, and a page that says what was run."""

from __future__ import annotations

import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools.pythons import cli, debian, interpreters, page
from tools.pythons.interpreters import Interpreter, NoPythonError
from tools.pythons.suites import CORE, CORE_OF_ASYNC_CONSUMER, SUITES, NoTestsError, Outcome, counted
from tools.pythons.suites import pytest as run_pytest

OWN_VERSION = sys.version.split()[0]
REPORT = """\
<testsuites><testsuite>
  <testcase classname="tests.test_a" name="test_one" />
  <testcase classname="tests.test_a" name="test_two"><failure /></testcase>
  <testcase classname="tests.test_a" name="test_two"><error /></testcase>
  <testcase classname="tests.test_b" name="test_one"><skipped /></testcase>
  <testcase classname="tests.test_b" name="test_three"><error /></testcase>
</testsuite></testsuites>
"""


def put_python(folder: Path, name: str, version: str) -> Path:
    """A program that says it is this Python; it fails if the version is empty, as pyenv's stand-ins do."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{f'echo {version}' if version else 'exit 127'}\n")
    program.chmod(0o755)
    return program


# --- which Python -----------------------------------------------------------------------------------------------------


def test_one_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_python(tmp_path / "bin", "python3.99", "3.99.1")
    put_python(tmp_path / "pyenv/versions/3.99.4/bin", "python3.99", "3.99.4")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = interpreters.find("3.99", {"PYENV_ROOT": str(tmp_path / "pyenv")})
    assert (found.path, found.origin, found.version()) == ("python3.99", "the PATH", "3.99.1")


def test_the_newest_of_pyenv_comes_next_where_the_path_has_only_a_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_python(tmp_path / "bin", "python3.99", "")
    for release in ("3.99.2", "3.99.10", "3.99.11b1"):
        put_python(tmp_path / f"pyenv/versions/{release}/bin", "python3.99", release)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    found = interpreters.find("3.99", {"PYENV_ROOT": str(tmp_path / "pyenv")})
    assert (found.origin, found.version()) == ("pyenv", "3.99.10")


def test_one_that_is_nowhere_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NoPythonError) as caught:
        interpreters.find("3.99", {"PYENV_ROOT": str(tmp_path)})
    assert str(caught.value) == (
        "no Python 3.99: put python3.99 on the PATH, or install it by pyenv; "
        "or run this command as root: it then installs Python from Debian sid"
    )


def test_root_without_debootstrap_hears_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "debootstrap" else f"/bin/{tool}")
    with pytest.raises(debian.NoDebianError, match="to have it from Debian trixie, install debootstrap"):
        debian.prepare("3.13")


def test_a_version_with_a_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["3.13.0"])
    assert "'3.13.0': write 3.13, without the release" in capsys.readouterr().err


# --- a Debian in the cache --------------------------------------------------------------------------------------------


def test_in_a_debian_there_is_the_clone_and_what_pip_is_set_up_with(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    environ = {"PIP_FIND_LINKS": str(wheels), "PIP_CERT": str(tmp_path / "missing"), "PIP_RETRIES": "3"}
    shared = list(debian.shared_paths(environ))
    assert {debian.TOP, wheels} <= set(shared)
    assert tmp_path / "missing" not in shared
    assert all(path.is_absolute() for path in shared)


def test_what_changes_a_debian_reaches_nothing_of_the_machine(tmp_path: Path) -> None:
    """Its certificates would be written over the machine's."""
    words = debian.Debian("sid", tmp_path).set_up(["apt-get", "update"])
    shared = words[words.index(str(tmp_path)) + 2 : words.index("--")]
    assert list(shared) == ["/etc/resolv.conf", "/etc/hosts"]


# --- what came of it --------------------------------------------------------------------------------------------------


def test_a_test_that_fails_and_whose_teardown_fails_is_counted_once() -> None:
    found = counted(ET.fromstring(REPORT), 1.5)
    assert found == Outcome(1, ["tests.test_a::test_two", "tests.test_b::test_three"], 1, 1.5)


def test_a_run_that_was_interrupted_counts_nothing() -> None:
    with pytest.raises(NoTestsError, match=r"the tests could not be run \(exit code 2\)"):
        run_pytest(Interpreter(sys.executable, "here"), [sys.executable, "-c", "raise SystemExit(2)"])


def test_suites_add_up() -> None:
    assert Outcome(1, ["a"], 2, 0.5) + Outcome(3, ["b"], 4, 1.0) == Outcome(4, ["a", "b"], 6, 1.5)


def test_the_core_names_files_that_are_there() -> None:
    assert [name for name in (*CORE, *CORE_OF_ASYNC_CONSUMER) if not (page.TOP / name).exists()] == []


def test_a_line_and_the_facts_name_what_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered: list[page.Facts] = []
    outcome = Outcome(7, ["tests.test_a::test_two"], 1, 2.4)
    monkeypatch.setattr("tools.pythons.suites.run", lambda *_arguments: outcome)
    monkeypatch.setattr(page, "remember", lambda _wanted, found: remembered.append(found))
    code = cli.tried_suite("3.99", Interpreter(sys.executable, "here"), "python", "fast", write=True)
    assert code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{OWN_VERSION:8} fast  7 passed, 1 failed, 1 skipped, 2 s",
        "         failed: tests.test_a::test_two",
    ]
    assert [found["version"] for found in remembered] == [OWN_VERSION]
    assert remembered[0]["suites"] == {"fast": page.counts(outcome)}


def facts(version: str, suite: str, passed: int) -> page.Facts:
    return {"version": version, "origin": "here", "suites": {suite: page.counts(Outcome(passed, [], 0, 1.0))}}


def test_a_suite_that_is_not_run_again_stays_unless_the_release_is_another_one() -> None:
    before = facts("3.99.1", "fast", 5)
    assert page.merged(before, facts("3.99.1", "core", 6))["suites"].keys() == {"fast", "core"}
    assert page.merged(before, facts("3.99.1", "fast", 6)) == facts("3.99.1", "fast", 6)
    assert page.merged(before, facts("3.99.2", "core", 6)) == facts("3.99.2", "core", 6)


def test_the_table_is_that_of_the_facts() -> None:
    written = page.DOCUMENT.read_text()
    assert page.page(written, page.known()) == written


def test_the_classifiers_are_the_pythons_that_passed() -> None:
    """A version that was not run, or on which a test fails, is not one that the package promises. On the one that runs
    this test all others are run as well."""
    passed = {
        version
        for version, found in page.known().items()
        if found["suites"].keys() == SUITES.keys() and not any(counts["failed"] for counts in found["suites"].values())
    }
    assert set(page.supported()) == passed | {f"{sys.version_info.major}.{sys.version_info.minor}"}


def test_the_oldest_classifier_is_the_oldest_python_that_is_let_in() -> None:
    (oldest,) = re.findall(r'requires-python = ">=(3\.\d+)"', (page.TOP / "pyproject.toml").read_text())
    assert page.supported()[0] == oldest
