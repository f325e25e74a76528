"""Pages as a browser reads them."""

import re
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
        self.addresses += [value for key, value in attributes if key in ("href", "src", "action", "data")]
        assert not [key for key, _ in attributes if key.startswith("on")]
        if name not in ("meta", "br"):
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name
        self.words.append(" ")

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)
