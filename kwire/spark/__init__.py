"""kwire on Spark: Kafka as a data source in Python, with no JAR, and what runs on it. Needs pip install 'kwire[spark]'.

`spark.read.format("kwire")`, `spark.readStream.format("kwire")`: the options, schema, offsets and answers are those of
Spark's own source, `kafka`; docs/spark.md has them all. Nothing here is loaded by `import kwire`; Spark finds the
source by itself, as `pyspark_kwire`.
"""

from __future__ import annotations
