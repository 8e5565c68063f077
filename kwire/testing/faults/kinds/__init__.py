"""What each kind of fault is, as data: by whom it strikes, one module each. `catalogue.py` puts them together."""
