"""Settings of the documentation site; `bash bash/docs.sh` builds it."""

from __future__ import annotations

import os
from pathlib import Path

from radial_vicreg import __version__

project = "radial-vicreg"
release = __version__
html_title = f"radial-vicreg {release}"
html_theme = "furo"
html_show_copyright = False
exclude_patterns = ["_build"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The offline extension brings MathJax with the site: its pages load nothing from elsewhere, which bash/links.py checks.
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx-mathjax-offline"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # GitHub's names of headings, so that one link serves both
copybutton_prompt_text = ">>> "

napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes as a list
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"

# Notebooks are text without outputs: each build executes them, away from the checkout.
NOTEBOOKS = str(Path(__file__).parent / "notebooks")  # where their extension plain_bash is
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [NOTEBOOKS, os.environ.get("PYTHONPATH")]))
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True  # an exception is a warning, which ends the build
nb_execution_timeout = 600
nb_merge_streams = True
