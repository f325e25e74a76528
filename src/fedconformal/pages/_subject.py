"""What a certificate is about: a calibration, the laws of its levels, and how it was checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fedconformal import baselines
from fedconformal.audit import Check
from fedconformal.documents import Calibration, Plan
from fedconformal.laws import Summary
from fedconformal.pages import _words as words
from fedconformal.pages._html import Markup, join, tag

MOST_SITES = 200
"""Sites listed one by one; of larger federations the rest stays in the calibration that the page carries."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A calibration and what all sections say of it."""

    calibration: Calibration
    checks: Sequence[Check]

    @property
    def plan(self) -> Plan:
        """The plan that was answered."""
        return self.calibration.plan

    @cached_property
    def laws(self) -> list[Summary]:
        """The law of each level."""
        found = zip(self.calibration.laws, self.calibration.levels, strict=True)
        return [Summary(law, level.confidence_level) for law, level in found]

    @cached_property
    def n_points(self) -> int:
        """Calibration cases of all sites that answered."""
        return sum(count * n for (n, _), count in self.calibration.groups.items())

    @property
    def bounded(self) -> bool:
        """Whether the law is a lower bound and not the exact law."""
        return self.plan.privacy is not None or self.plan.max_faulty > 0 or self.each_site

    @property
    def each_site(self) -> bool:
        """Whether the promise is to every site by itself."""
        return self.plan.target == "each-site"

    @property
    def whose(self) -> str:
        """Whose new cases the promise is for."""
        return words.EACH_SITE if self.each_site else words.EVERYBODY

    def pooled(self, level: float) -> Summary:
        """The law that all cases in one place would give."""
        return Summary(baselines.coverage_law(self.n_points, level), level)


def section(title: str, *children: Markup) -> Markup:
    """A heading and what belongs to it."""
    return tag("section", tag("h2", title), join(children))


def short(digest: str) -> str:
    """The beginning of a digest."""
    return digest.removeprefix("sha256:")[:12]
