"""Questions and answers of the planner: a plan in words, the promises side by side, the cases needed."""

from fedconformal.web.planner._answer import answer_plan
from fedconformal.web.planner._cases import AbandonedError, CasesAnswer, answer_cases
from fedconformal.web.planner._promises import answer_promises, make_cards, page_choices
from fedconformal.web.planner._question import Grid, PlanQuestion, PrivacyWish
from fedconformal.web.planner._solution import Solution, make_plan, solve

__all__ = [
    "AbandonedError",
    "CasesAnswer",
    "Grid",
    "PlanQuestion",
    "PrivacyWish",
    "Solution",
    "answer_cases",
    "answer_plan",
    "answer_promises",
    "make_cards",
    "make_plan",
    "page_choices",
    "solve",
]
