"""What decoding needs is imported beside the first wait, or else by who needs it first; numpy only by who needs it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from confluent_kafka import Producer

from kwire import speedups
from kwire.fetching import loading
from kwire.fetching.open_fetch import OpenFetch
from kwire.imports_apart import ImportApart
from kwire.lazy_numpy import np
from kwire.testing import Cluster


def test_without_a_thread_to_load_it_in_it_is_loaded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """poll() raised a RuntimeError of threading's, where the system had no thread left."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(loading, "DECODING", ImportApart("kwire.fetching.open_fetch"))
    monkeypatch.setattr(threading.Thread, "start", start)
    loading.DECODING.begin()
    assert loading.loaded_open_fetch.__wrapped__() is OpenFetch


def test_what_cannot_be_loaded_ahead_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process without a free file descriptor each poll printed a traceback of the thread that loads."""
    raised = list[object]()
    apart = ImportApart("fastcrc")
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with monkeypatch.context() as without_descriptors:
        without_descriptors.setitem(sys.modules, "fastcrc", None)
        apart.begin()
        apart.finish()
    assert not apart.is_done
    assert raised == []
    apart.begin()
    apart.finish()
    assert apart.is_done


def test_numpy_is_the_module_whoever_asks_for_it() -> None:
    import numpy

    assert np.int64 is numpy.int64
    assert np.int64 is numpy.int64  # kept from the first time
    with pytest.raises(AttributeError, match="no_such_function"):
        getattr(np, "no_such_function")  # noqa: B009  type checkers know that there is none


PROGRAM = """
import json, sys
from kwire import Consumer

with Consumer(
    "orders",
    bootstrap_servers=sys.argv[1],
    group_id="billing",
    auto_offset_reset="earliest",
    value_deserializer=json.loads,
) as consumer:
    count = 0
    while count < 900:
        records = consumer.poll(10.0)
        count += len([record.value["number"] for record in records])
        count += 0 * len(records.values()) * len(records.keys())
        consumer.commit_sync()
    assert "numpy" not in sys.modules, "numpy"
    print(count, records.offsets().dtype)
"""


def test_who_takes_record_by_record_does_without_numpy(kafka_cluster: Cluster) -> None:
    """It takes a tenth of a second and 25 MB, and at first a second processor."""
    if speedups.module is None:
        pytest.skip("without the module in C all is decoded with numpy")
    kafka_cluster.create_topic("orders", partitions=2)
    for codec in "none", "lz4", "zstd":
        producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "compression.type": codec})
        for number in range(300):
            producer.produce("orders", b'{"number": %d}' % number, headers={"from": b"shop"})
        producer.flush(30.0)
    command = [sys.executable, "-c", PROGRAM, kafka_cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "900 int64\n", "")
