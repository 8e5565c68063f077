"""The facades users hold: `Consumer`, and what its callbacks are given."""
