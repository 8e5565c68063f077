"""The site: how it is built (`build.py`), and what its pages are written from."""
