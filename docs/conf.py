"""The documentation site: ``make docs``."""

import sys
from pathlib import Path

import fedconformal

sys.path.insert(0, str(Path(__file__).parent / "_site"))

project = "fedconformal"
author = "The fedconformal developers"
copyright = f"2026, {author}"
version = release = fedconformal.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "leave_the_site",
    "api_pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_site/templates"]
exclude_patterns = ["gallery/*.ipynb", "_site", "schemas"]
nitpicky = False
suppress_warnings = ["config.cache"]

myst_heading_anchors = 4

autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    # what is printed and drawn, not what a last line happens to return
    "capture_repr": (),
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}
html_title = "fedconformal"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "github_url": "https://github.com/fedconformal/fedconformal",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
