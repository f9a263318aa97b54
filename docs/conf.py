"""The documentation as pages: Markdown beside it, and the reference from docstrings. Built without network by ``make docs``."""

from importlib import metadata

project = "Inkling Workbench"
author = "The Inkling Workbench authors"
copyright = f"2026, {author}"
release = metadata.version("inkling-workbench")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "none"  # numpydoc's sections say the types, with units and ranges
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "native"
