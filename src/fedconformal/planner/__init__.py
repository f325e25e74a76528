"""The planner: a local web page on which a plan is found by moving sliders; Python does the mathematics."""

from fedconformal.planner._app import create_app
from fedconformal.planner._openapi import openapi

__all__ = ["create_app", "openapi"]
