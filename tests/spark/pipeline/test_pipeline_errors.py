"""What a pipeline says of the pages that Spark writes about an error."""

from __future__ import annotations

from kwire.spark.pipeline.run import said_by

PAGES = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] it failed:
Traceback (most recent call last):
  File "source.py", line 70, in streamReader
    raise OptionError("no port")
kwire.spark.errors.OptionError: 'localhost' has no port; Kafka's usual one is 9092

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "runner.py", line 294, in main
    reader.stop()
UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
"""


def test_the_error_of_the_source_is_told_and_not_the_one_that_spark_raises_over_it() -> None:
    assert said_by(PAGES) == "OptionError: 'localhost' has no port; Kafka's usual one is 9092"


def test_without_a_traceback_it_is_the_first_line() -> None:
    failed = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no space left\nat org.apache"
    assert said_by(failed) == "no space left"
