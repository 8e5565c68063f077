"""What every test shares: how Hypothesis searches."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples each time, so that a failure means that the change did it. `HYPOTHESIS_PROFILE=deep scripts/test`
# searches anew and longer. No deadlines: a slow machine is not a bug.
settings.register_profile("default", derandomize=True, deadline=None, max_examples=50, database=None)
settings.register_profile("deep", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
