"""The documentation site: `make docs` builds it, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "src")]

import aimfor  # noqa: E402

project = "aimfor"
author = "the aimfor developers"
copyright = "the aimfor developers, MIT licence"
release = version = aimfor.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "api_pages",
    "names_in_code",
    "site_sources",
]
exclude_patterns = ["_build", "_extensions"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_html_meta = {
    "description": "PyTorch losses for the metric you are judged by; thresholds that keep their promise on new rows."
}

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields are members already
napoleon_custom_sections = ["Shape"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"aimfor {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_logo = html_favicon = "_static/logo.svg"
html_search_scorer = str(HERE / "_extensions" / "scorer.js")
html_theme_options = {"navigation_with_keys": True}
