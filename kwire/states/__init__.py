"""Every state and every transition of the project, as data.

A manager fires events and performs effects; it never assigns a state. `machine.py` has the engine, each other module
one table, with a reason for every state and event without a row.
"""
