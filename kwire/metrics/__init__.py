"""What a consumer counts about itself, under the names that Java's consumer has for it.

Who does something counts it, by adding to a plain number that no other thread writes; rates, averages and maxima are
made of that by whoever asks. Nothing here locks, waits, or reads a clock: time comes in as an argument.
"""

from __future__ import annotations

from kwire.metrics.consumer import ConsumerMetrics
from kwire.metrics.names import MetricName
from kwire.metrics.window import WindowSetting

__all__ = ["ConsumerMetrics", "MetricName", "WindowSetting"]
