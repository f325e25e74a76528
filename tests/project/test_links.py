"""tools/check_links.py, on sites of a few lines."""

import pytest
from check_links import main, problems

PAGE = '<html><body id="top"><h2 id="law">The law</h2>{}</body></html>'
RIGHT = """
<a href="#law">here</a><a href="#">top</a><a href="api/index.html#top">there</a>
<a href="api/">its folder</a>
<a href="https://example.org/nowhere">elsewhere</a><a href="mailto:a@example.org">a</a>
<img src="a%20b.png"><img src="a%20b.png?v=1"><img src="data:image/png;base64,AA==">
<a name="old"></a><a href="index.html#old">a named anchor</a>
<p>the test at 0x5 and at 0.05</p>
"""
WRONG = {
    '<a href="gone.html">x</a>': "gone.html: not there",
    '<a href="#gone">x</a>': "#gone: no such anchor",
    '<a href="api/index.html#gone">x</a>': "api/index.html#gone: no such anchor",
    '<img srcset="a%20b.png 1x, gone.png 2x">': "gone.png: not there",
    '<script src="https://cdn/x.js"></script>': (
        "https://cdn/x.js: comes from elsewhere"
    ),
    '<link rel="stylesheet" href="//cdn/x.css">': "//cdn/x.css: comes from elsewhere",
    "<pre>&lt;Legend object at 0x7f66622e7ed0&gt;</pre>": (
        "shows the address of an object"
    ),
}


@pytest.fixture
def site(tmp_path):
    """A site with two pages, a picture and a template; the first page says what it is
    given.
    """

    def make(text):
        for folder in ("api", "_static"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "_static" / "macros.html").write_text(
            '<script src="{{ pathto(1) }}"></script>'
        )
        (tmp_path / "a b.png").write_bytes(b"")
        (tmp_path / "index.html").write_text(PAGE.format(text))
        (tmp_path / "api" / "index.html").write_text(
            PAGE.format('<a href="../index.html#law">back</a>')
        )
        return tmp_path

    return make


def test_links_that_lead_somewhere(site, capsys):
    assert main(site(RIGHT)) == 0
    assert capsys.readouterr().out == "links: 2 pages, every link leads somewhere\n"


def test_what_is_found_wrong_and_the_exit_code_says_it(site, tmp_path):
    assert main(tmp_path) == 1  # a folder without pages is no site
    for text, said in WRONG.items():
        assert list(problems(site(text))) == [f"index.html: {said}"]
        assert main(tmp_path) == 1
