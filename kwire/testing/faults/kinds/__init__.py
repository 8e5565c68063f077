"""The kinds of faults, with their injectors: one module for each sort of target. `catalogue.py` collects them."""
