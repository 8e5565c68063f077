"""A topic into a table of Parquet files, onto the console, or through a function, as one streaming query of Spark.

`plan` says what is to be done, `run` does it; `kwire pipeline` is a face for both.
"""

from __future__ import annotations
