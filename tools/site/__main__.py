"""`python -m tools.site`: builds the site into docs/_build/html. `scripts/docs` runs it."""

from __future__ import annotations

import sys

from tools.site.build import main

sys.exit(main())
