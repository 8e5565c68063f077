"""docs/pipeline.md has every setting there is, and its file can be read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kwire.cli.pipeline_settings import merged
from kwire.spark.pipeline.plan import NAMES, plan_from

DOCS = (Path(__file__).parents[2] / "docs/pipeline.md").read_text()
# Whose flag has another name.
ELSEWHERE = {"bootstrap": "-b localhost", "every_s": "--every 60", "exit_at_end": "--exit-at-end"}


@pytest.mark.parametrize("name", sorted(NAMES - {"kafka", "source", "spark"}))
def test_each_setting_is_there(name: str) -> None:
    flag = "--" + name.replace("_", "-")
    assert any(word in DOCS for word in (flag, f"{name} = ", ELSEWHERE.get(name, flag)))


def test_the_file_is_one() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    plan = plan_from(merged(tomllib.loads(text), {"value_schema": "id BIGINT"}))
    assert plan.source == {
        "kafka.fetch.max.bytes": "52428800",
        "failOnDataLoss": "false",
        "kwire.freshOffsetsPerTrigger": "500000",
    }
    assert plan.spark == {"spark.driver.memory": "4g"}
