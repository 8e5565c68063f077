"""Proxies between clients and brokers: toxiproxy for slow and broken networks, and one for what it cannot do.

`chain` puts both in front of each broker; the fault harness uses nothing else.
"""

from __future__ import annotations
