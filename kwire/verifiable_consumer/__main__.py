"""`python -m kwire.verifiable_consumer`."""

from __future__ import annotations

import sys

from kwire.verifiable_consumer.command import main

sys.exit(main(sys.argv[1:]))
