"""Fault injection against a real Kafka: a schedule of faults strikes a consumer group, and a report judges the result.

`harness.py` runs a schedule and judges it, for any consumer. A schedule (`schedule.py`) lists faults and their times.
`catalogue.py` names the faults, `kinds/` carries them out on a `testbed.py`, and `report/` shows the result.
"""
