"""The words of the page: explained where they stand by hovering or tapping, and all together for print."""

from fedconformal.web._html import Markup, section, tag
from fedconformal.web.certificates._claim import Certified

_WORDS = {
    "case": "One record with its outcome: a patient, a loan. New cases are what the model is used on.",
    "calibration": "Setting the threshold, once, with cases that the model was not trained on.",
    "coverage": "The share of new cases whose outcome lies in its prediction set.",
    "level": "The coverage that was asked for, such as 90 %.",
    "prediction set": "An interval of values, or a list of labels, in place of a single prediction.",
    "privacy loss": "ε: one record changes the chance of any report by a factor of exp(ε) at most.",
    "rank": "A site sorts its scores; the score of rank 5 is the fifth smallest.",
    "report": "The only message of a site: a few of its scores, or noisy ones, and how many cases it has.",
    "score": "How far off the model was for a case, as one number: larger is worse.",
    "threshold": "The largest score q that is accepted: a set holds every outcome whose score is at most q.",
    "votes": "How the server decides: the smallest reported number that enough votes lie at or below.",
}


def term(word: str, shown: str = "") -> Markup:
    """Return a word with its explanation behind it.

    Parameters
    ----------
    word : str
        One that is explained below.
    shown : str, optional
        In another form.

    Returns
    -------
    Markup
        A link to the explanation, which also appears where the pointer rests.
    """
    return tag("a", shown or word, href=f"#{_anchor(word)}", title=_WORDS[word], class_="term")


def glossary(it: Certified) -> Markup:
    """Return every word of the page that needs one with its explanation."""
    entries = (
        child
        for word, meaning in _WORDS.items()
        for child in (tag("dt", word, id=_anchor(word)), tag("dd", meaning))
    )
    return section("Words on this page", tag("dl", *entries, class_="words"))


def _anchor(word: str) -> str:
    return f"word-{word.replace(' ', '-')}"
