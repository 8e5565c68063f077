"""A signal handler that raises while the first poll loads numpy: the process can still decode records."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kwire.testing import Cluster

PROGRAM = """
import signal, sys
from kwire import Consumer, TopicPartition

class Late(BaseException):
    pass

armed = False

def ring(*_):
    global armed
    if armed:
        armed = False
        raise Late

signal.signal(signal.SIGALRM, ring)
consumer = Consumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
consumer.assign([TopicPartition("t", 0)])
late = 0
assert "numpy" not in sys.modules
signal.setitimer(signal.ITIMER_REAL, 0.004, 0.004)
while True:
    try:
        armed = late < 25  # on a busy machine each poll may take longer than a signal
        records = consumer.poll(0.5)
        armed = False
        if late >= 25:
            signal.setitimer(signal.ITIMER_REAL, 0)
            break
        if records:
            consumer.seek(TopicPartition("t", 0), 0)
    except Late:
        late += 1
while not records:
    records = consumer.poll(5.0)
print(late, [record.value for record in records])
consumer.close()
"""


@pytest.mark.slow
def test_loading_goes_on_though_the_poll_is_interrupted(kafka_cluster: Cluster) -> None:
    """What was imported half could not be imported again: each later poll raised."""
    kafka_cluster.create_topic("t", partitions=1)
    kafka_cluster.produce("t", b"1", b"2")
    servers = kafka_cluster.bootstrap_servers
    command = [sys.executable, "-c", PROGRAM, servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    late, _, values = done.stdout.partition(" ")
    assert int(late) >= 1
    assert values.strip() == "[b'1', b'2']"
