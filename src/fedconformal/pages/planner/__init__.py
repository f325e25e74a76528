"""Questions and answers of the planner: a plan, the promises side by side, the cases needed."""

from fedconformal.pages.planner._answer import answer_plan
from fedconformal.pages.planner._cases import AbandonedError, answer_cases
from fedconformal.pages.planner._promises import answer_promises, make_cards, page_choices
from fedconformal.pages.planner._question import Grid, PlanQuestion, PrivacyOptions
from fedconformal.pages.planner._solution import make_plan, solve

__all__ = [
    "AbandonedError",
    "Grid",
    "PlanQuestion",
    "PrivacyOptions",
    "answer_cases",
    "answer_plan",
    "answer_promises",
    "make_cards",
    "make_plan",
    "page_choices",
    "solve",
]
