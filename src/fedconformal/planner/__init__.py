"""The planner: a local web page on which a plan is found by moving sliders; Python does the mathematics."""

from fedconformal.planner._app import create_app
from fedconformal.planner._openapi import openapi
from fedconformal.planner._serve import background, serve

__all__ = ["background", "create_app", "openapi", "serve"]
