"""How Sphinx builds the site: `scripts/docs` runs it, with the top of the clone as its source.

Pages are the Markdown files that people read in the repository as well, so links between them, and to files beside
them, are the same in both places.
"""

from __future__ import annotations

import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from kwire.version import __version__  # noqa: E402  found by the line above

project = "kwire"
author = "the authors of kwire"
release = version = __version__
root_doc = "docs/index"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "tools.site.borrowed_docs",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "tools.site.state_diagrams",
]
include_patterns = [
    "docs/**.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "DESIGN.md",
    "README.md",
    "SECURITY.md",
    "*/README.md",
]
exclude_patterns = [".*", "dist", "build", "docs/_build", "tests", "kwire"]

html_theme = "furo"
html_static_path = ["../tools/site/static"]
html_css_files = ["site.css"]
html_title = f"kwire {__version__}"
html_show_copyright = False
html_copy_source = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]

# What stands between single backticks in a docstring is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
# They are optional, and not installed where the site is built.
autodoc_mock_imports = [
    "confluent_kafka",
    "greenlet",
    "opentelemetry",
    "pandas",
    "polars",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "trustme",
]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
suppress_warnings = ["myst.header"]  # pages made by scripts begin where their heading is
