"""Apache Kafka's own system tests (kafkatest, on ducktape), for kwire's verifiable consumer and for Java's.

The tests believe that each program has a machine of its own, reached by ssh: with fixed ports, below /mnt, found by
`ps`. Here a machine is a set of Linux namespaces (network, processes, mounts), and commands enter it. Nothing of that
outlives the command: all of it is below one namespace of processes, which ends with the driver.

`prove` is the command; `sources` has the tests and what is changed in them; `installation` has Kafka as the tests look
for it; `cases` says which tests there are; `running` runs one; `driver` and `machines` make the machines; `results`
writes what came of it. `in_ducktape/` is what ducktape loads, in an environment of its own.
"""
