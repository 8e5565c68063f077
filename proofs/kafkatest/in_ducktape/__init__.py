"""What ducktape loads by name: it runs in an environment of its own, and imports nothing else of this repository."""
