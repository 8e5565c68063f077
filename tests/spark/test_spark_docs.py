"""docs/spark.md has every option there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwire.config import SETTINGS
from kwire.spark.kafka_options import _REFUSED, PREFIX
from kwire.spark.options import _KNOWN, OWN_OPTIONS, stream_options
from kwire.spark.pipeline.session import REDACTED_OPTIONS

DOCS = (Path(__file__).parents[2] / "docs/spark.md").read_text()


@pytest.mark.parametrize("name", [*_KNOWN.values(), *OWN_OPTIONS.values(), *(PREFIX + name for name in _REFUSED)])
def test_every_option_is_in_the_table(name: str) -> None:
    assert f"`{name}`" in DOCS


def test_the_options_of_a_secured_cluster_are_taken() -> None:
    (written,) = re.findall(r"^secured = (\{.*?^\})", DOCS, re.DOTALL | re.MULTILINE)
    named = dict(re.findall(r'^    "([^"]+)": "?([^",]+)', written, re.MULTILINE))
    options = stream_options({**named, "subscribe": "orders"})
    assert {"security_protocol", "sasl_mechanism", "sasl_password", "ssl_truststore_location"} <= set(options.kafka)


HIDDEN_BY_SPARK = "(?i)secret|password|token|access[.]?key"  # Spark's spark.redaction.regex, unless it is set


def test_spark_hides_each_secret_by_its_own_settings_and_the_one_advised() -> None:
    assert f"`{REDACTED_OPTIONS}`" in DOCS
    for name, setting in SETTINGS.items():
        option = f"{PREFIX}{setting.java_name}"
        is_hidden = re.search(HIDDEN_BY_SPARK, option) or re.search(REDACTED_OPTIONS, option)
        assert is_hidden or not setting.is_secret, name
