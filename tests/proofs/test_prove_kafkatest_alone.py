"""Two runs of Kafka's system tests in one clone do not meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.kafkatest.prove import alone


def test_a_second_run_is_refused_and_a_later_one_is_not(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(SystemExit, match="another run goes on"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass
