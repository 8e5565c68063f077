"""The pictures of docs/pictures: what commands print on a terminal, and pages of the site in a browser.

`scripts/docs --pictures` builds the site, and makes them all.
"""
