"""Faults against a real Kafka: what strikes, when, and what became of it. Any consumer can be put through it.

`harness.py` is the entry: it runs a schedule and judges it. `schedule.py` says what is to happen and when, from the
faults that `catalogue.py` names and `kinds/` carries out on a `testbed.py`; `report/` shows what became of it.
"""
