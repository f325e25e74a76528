"""The words of the page: explained where they stand by hovering or tapping, and all together for print."""

import re

from fedconformal.web._html import Markup, section, tag

_WORDS = {
    "bin": "A range of scores. All of them were fixed in public before; a private report names one.",
    "calibration": "Setting the threshold, once, with cases that the model was not trained on.",
    "case": "One record with its outcome: a patient, a loan. New cases are what the model is used on.",
    "certainty": "How often, among calibrations like this one, what is said holds.",
    "coverage": "The share of new cases whose outcome lies in its prediction set.",
    "criterion": "In which sense the level is reached: on average over calibrations, or in most of them.",
    "differentially private": (
        "Drawn at random in such a way that exchanging one case changes the chance of any report by no "
        "more than a known factor."
    ),
    "digest": "A number computed from a file, 64 characters long: any change to the file gives another one.",
    "exchangeable": "Nothing tells the new one from the others: it might as well have been any of them.",
    "independent and identically distributed": (
        "As if each had been drawn from the same large pot, none with regard to another."
    ),
    "law": "Which values a number takes and how often: here, the coverage over calibrations like this one.",
    "ledger": "A site’s own record of the privacy that it has spent.",
    "level": "The coverage that was asked for, such as 90 %.",
    "pooled": "Brought together in one place, which a federation avoids.",
    "prediction set": "An interval of values, or a list of labels, in place of a single prediction.",
    "privacy loss": "ε: one case changes the chance of any report by a factor of exp(ε) at most.",
    "quantile": "The value that a given share lies below.",
    "rank": "A site sorts its scores; the score of rank 5 is the fifth smallest.",
    "report": "The only message of a site: a few of its scores, or noisy ones, and how many cases it has.",
    "score": "How far off the model was for a case, as one number: larger is worse.",
    "site": "Whoever has cases and keeps them: a hospital, a bank.",
    "spread": "The standard deviation: how far coverages typically are from their average.",
    "threshold": "The largest score q that is accepted: a set holds every outcome whose score is at most q.",
    "ties": "Scores that are equal.",
    "vote": "How the server decides: the smallest reported number that enough votes lie at or below.",
}
_FORMS = {
    "pooled": r"pool(?:ed|ing)",
    "ties": "ties",
    "criterion": "criteri(?:on|a)",
}
_TERMS = re.compile(
    r"\b(?:" + "|".join(f"({_FORMS.get(word, rf'{word}s?')})" for word in _WORDS) + r")\b", re.IGNORECASE
)
_TAG = re.compile(r"(<[^>]*>)")
_PLAIN = 'class="kicker"'
_NOT_IN = {"a", "caption", "code", "dl", "h1", "h2", "h3", "pre", "svg", "th"}


class Glossary:
    """The words that a page needs, found as it is written."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def explain(self, written: Markup) -> Markup:
        """Return a section in which every word is explained where it first stands.

        Parameters
        ----------
        written : Markup
            HTML as `tag` makes it, in which no text and no attribute has a bracket of its own.

        Returns
        -------
        Markup
            The meaning appears where the pointer rests, or after a tap.
        """
        seen: set[str] = set()
        closing: list[str] = []  # what ends the elements in which nothing is explained

        def read(piece: str) -> str:
            if not piece.startswith("<"):
                return piece if closing else _TERMS.sub(lambda found: self._explained(found, seen), piece)
            name = piece.strip("</>").split()[0]
            if closing and piece == closing[-1]:
                closing.pop()
            elif (name in _NOT_IN and not piece.startswith("</")) or _PLAIN in piece:
                closing.append(f"</{name}>")
            return piece

        return Markup("".join(map(read, _TAG.split(written))))

    def _explained(self, found: re.Match[str], seen: set[str]) -> str:
        word = list(_WORDS)[(found.lastindex or 1) - 1]
        if word in seen:
            return found[0]
        seen.add(word)
        self._used.add(word)
        attributes = {"data_meaning": _WORDS[word], "aria_describedby": _anchor(word)}
        return tag("span", Markup(found[0]), class_="term", tabindex="0", **attributes)

    def section(self) -> Markup:
        """Return every word that was explained, with its meaning."""
        entries = (
            tag("div", tag("dt", word), tag("dd", meaning, id=_anchor(word)))
            for word, meaning in _WORDS.items()
            if word in self._used
        )
        return section("Words on this page", tag("dl", *entries, class_="words"))


def _anchor(word: str) -> str:
    return f"word-{word.replace(' ', '-')}"
