"""tools/check_links.py, on sites of a few lines."""

import pytest
from check_links import main, problems

PAGE = '<html><body id="top"><h2 id="law">The law</h2>{}</body></html>'


@pytest.fixture
def site(tmp_path):
    """A site with two pages, a picture and a folder; the first page says what it is given."""

    def make(text):
        (tmp_path / "api").mkdir(exist_ok=True)
        (tmp_path / "a b.png").write_bytes(b"")
        (tmp_path / "index.html").write_text(PAGE.format(text))
        (tmp_path / "api" / "index.html").write_text(PAGE.format('<a href="../index.html#law">back</a>'))
        return tmp_path

    return make


@pytest.mark.parametrize(
    "text",
    [
        '<a href="#law">here</a><a href="#">top</a>',
        '<a href="api/index.html#top">there</a><a href="api/">its folder</a>',
        '<a href="https://example.org/nowhere">elsewhere</a><a href="mailto:a@example.org">a</a>',
        '<img src="a%20b.png"><img src="a%20b.png?v=1"><img src="data:image/png;base64,AA==">',
        '<a name="old"></a><a href="index.html#old">a named anchor</a>',
    ],
)
def test_links_that_lead_somewhere(text, site):
    assert list(problems(site(text))) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<a href="gone.html">x</a>', "index.html: gone.html: not there"),
        ('<a href="#gone">x</a>', "index.html: #gone: no such anchor"),
        ('<a href="api/index.html#gone">x</a>', "index.html: api/index.html#gone: no such anchor"),
        ('<img src="gone.png">', "index.html: gone.png: not there"),
        ('<img srcset="a%20b.png 1x, gone.png 2x">', "index.html: gone.png: not there"),
        ('<script src="https://cdn/x.js"></script>', "index.html: https://cdn/x.js: comes from elsewhere"),
        ('<link rel="stylesheet" href="//cdn/x.css">', "index.html: //cdn/x.css: comes from elsewhere"),
    ],
)
def test_what_is_found_wrong(text, said, site):
    assert list(problems(site(text))) == [said]


def test_every_page_is_looked_at_and_the_exit_code_says_it(site, capsys):
    folder = site('<a href="api/index.html">x</a>')
    assert main(folder) == 0
    assert capsys.readouterr().out == "links: 2 pages, every link leads somewhere\n"
    (folder / "api" / "index.html").write_text('<a href="gone.html">x</a>')
    assert main(folder) == 1
    assert "api/index.html: gone.html" in capsys.readouterr().out


def test_templates_of_the_theme_are_no_pages(site):
    folder = site("")
    (folder / "_static").mkdir()
    (folder / "_static" / "macros.html").write_text('<script src="{{ pathto(1) }}"></script>')
    assert list(problems(folder)) == []


def test_a_page_that_shows_where_an_object_lies(site):
    folder = site("<pre>&lt;matplotlib.legend.Legend object at 0x7f66622e7ed0&gt;</pre>")
    assert list(problems(folder)) == ["index.html: shows the address of an object"]
    assert list(problems(site("<p>the test at 0x5 and at 0.05</p>"))) == []


def test_a_folder_without_pages_is_no_site(tmp_path):
    assert main(tmp_path) == 1
