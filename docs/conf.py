"""Sphinx configuration of the documentation: MyST Markdown, furo, autodoc with napoleon, sphinx-gallery."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent / "examples"))

project = "Oar"
author = "the Oar contributors"
project_copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "project_pages",
]
if os.environ.get("OAR_DOCS_QUICK"):  # text only: neither the API reference nor the gallery
    extensions = ["myst_parser"]
    exclude_patterns = ["_build", "api", "gallery"]
    suppress_warnings = ["toc.not_readable", "toc.excluded", "myst.xref_missing"]
else:
    exclude_patterns = [
        "_build",
        "gallery/sg_execution_times.rst",
        "sg_execution_times.rst",
        "gallery/GALLERY_HEADER.rst",
    ]
    suppress_warnings = ["config.cache"]

html_theme = "furo"
html_title = "Oar"
html_static_path = ["_static"]
html_show_sphinx = False
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
# Types in docstrings are prose ("int or list"), not references.
nitpick_ignore_regex = [(r"py:.*", r".*")]

default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1000,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "write_computation_times": False,
    "plot_gallery": "True",
}
