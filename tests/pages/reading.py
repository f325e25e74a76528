"""Pages as a browser reads them."""

import re
from html import unescape
from html.parser import HTMLParser


class Reader(HTMLParser):
    """The text that is read, the tags there are, and every address that is named."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.addresses, self.words, self.open = set(), [], [], []
        self.feed(page)
        self.text = re.sub(r"\s+", " ", "".join(self.words)).strip()

    def handle_starttag(self, name, attributes):
        self.tags.add(name)
        self.words.append(" ")
        self.addresses += [
            value
            for key, value in attributes
            if key in ("href", "src", "action", "data")
        ]
        assert not [key for key, _ in attributes if key.startswith("on")]
        if name not in ("meta", "br", "input"):
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name
        self.words.append(" ")

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)


class Shown:
    """Parts of the planner's answer by the ids of their elements."""

    def __init__(self, answer):
        self.answer = answer
        self.feasible = 'class="infeasible"' not in answer
        self.headline, self.lead, self.caption, self.summary = map(
            self.part, ("headline", "lead", "caption", "summary")
        )
        self.command, self.report_command = (
            self.part("command"),
            self.part("report-command") or None,
        )
        self.promise = [self.lead, *self.items("promise", "p")]
        self.cost, self.notes, self.steps = (
            self.items(name, "li") for name in ("cost", "notes", "steps")
        )
        rows = re.findall(r"<tr.*?</tr>", self.inside("rows"), re.DOTALL)
        self.rows = {read(row, "th")[0]: read(row, "td") for row in rows}
        self.picture = (re.findall(r"<svg.*?</svg>", answer, re.DOTALL) or [None])[0]

    def inside(self, name):
        found = re.search(
            rf'<(\w+) id="{name}"[^>]*>(.*?)</\1>', self.answer, re.DOTALL
        )
        return found[2] if found else ""

    def part(self, name):
        return text_of(self.inside(name))

    def items(self, name, tag):
        return read(self.inside(name), tag)


def read(html, tag):
    """The text of every element of a kind."""
    found = re.findall(rf"<{tag}(?: [^>]*)?>(.*?)</{tag}>", html, re.DOTALL)
    return [text_of(text) for text in found]


def text_of(html):
    apart = re.sub(r"</(?:d[dt]|h\d|p|li)>", " ", html)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", apart)).split())
