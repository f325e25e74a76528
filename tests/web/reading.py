"""Pages as a browser reads them."""

import re
from html.parser import HTMLParser


class Reader(HTMLParser):
    """The text that is read, the tags there are, and every address that is named."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.addresses, self.words, self.open = set(), [], [], []
        self.is_term = False
        self.feed(page)
        self.text = re.sub(r"\s+", " ", "".join(self.words)).strip()

    def handle_starttag(self, name, attributes):
        self.tags.add(name)
        self.is_term = ("class", "term") in attributes
        self.words += [] if self.is_term else [" "]
        self.addresses += [value for key, value in attributes if key in ("href", "src", "action", "data")]
        self.events = [key for key, _ in attributes if key.startswith("on")]
        assert not self.events
        if name not in ("meta", "br"):
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name
        self.words += [] if self.is_term else [" "]
        self.is_term = False

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)
