"""A soak: a group that reads for hours, with a fault every few minutes, and has to be at the end what it was before.

`soak` is the command and reports the run. `testbed` has brokers, proxies and the topic; `writer` writes; `member` is
the program of each member, `group` starts and stops them; `faults` injects faults. `coverage` knows what was read,
`watch` samples processes, `slopes` judges, and `picture` draws.
"""
