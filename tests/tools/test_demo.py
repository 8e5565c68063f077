"""`scripts/demo`, the first thing a new user runs."""

from __future__ import annotations

import pytest

from tools.demo import RECORDS, main


@pytest.mark.slow  # two clients start, and one joins a group
def test_the_demo_needs_no_java_and_reads_all_it_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert f"{RECORDS:,} records in" in said
    assert "All there, in order." in said


def test_a_flag_it_does_not_know_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--cafka"])
    assert exit_info.value.code == 2
    assert "--cafka" in capsys.readouterr().err
