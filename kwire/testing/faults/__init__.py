"""Faults against a real Kafka: what strikes, when, and what became of it. Any consumer can be put through it.

`schedule.py` says what is to happen and when, from the faults that `catalogue.py` names.
"""
