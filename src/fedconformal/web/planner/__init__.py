"""The planner's questions and answers: what can be promised, what it costs, what would be enough."""

from fedconformal.web.planner._answer import PlanAnswer, Row, answer_plan
from fedconformal.web.planner._choices import (
    allows_faulty,
    allows_numbers,
    allows_privacy,
    criteria_for,
    criterion_words,
)
from fedconformal.web.planner._limits import MOST_BYTES
from fedconformal.web.planner._question import Message, PlanQuestion, PlanRequest, PrivacyWish, WishRequest
from fedconformal.web.planner._solution import Solution, is_quick, make_plan, solve
from fedconformal.web.planner._wish import AbandonedError, WishAnswer, answer_wish

__all__ = [
    "MOST_BYTES",
    "AbandonedError",
    "Message",
    "PlanAnswer",
    "PlanQuestion",
    "PlanRequest",
    "PrivacyWish",
    "Row",
    "Solution",
    "WishAnswer",
    "WishRequest",
    "allows_faulty",
    "allows_numbers",
    "allows_privacy",
    "answer_plan",
    "answer_wish",
    "criteria_for",
    "criterion_words",
    "is_quick",
    "make_plan",
    "solve",
]
