"""kwire as a source of Spark, and what runs on it. Needs the extra: pip install 'kwire[spark]'."""

from __future__ import annotations
