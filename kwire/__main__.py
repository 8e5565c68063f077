"""`python -m kwire` is the same as the `kwire` command."""

from __future__ import annotations

from kwire.cli import main

main()
