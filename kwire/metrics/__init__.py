"""What a consumer counts about itself, under the names that Java's consumer has for it.

Each number is written by one thread, which adds to it. A snapshot calculates rates, averages and maxima from the
numbers, on the thread that asks. Nothing here locks, waits, or reads a clock: time comes in as an argument.
"""

from __future__ import annotations

from kwire.metrics.consumer import ConsumerMetrics
from kwire.metrics.names import MetricName
from kwire.metrics.window import WindowSetting

__all__ = ["ConsumerMetrics", "MetricName", "WindowSetting"]
