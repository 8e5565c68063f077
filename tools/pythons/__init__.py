"""`scripts/pythons`: the tests with each Python that kwire supports."""
