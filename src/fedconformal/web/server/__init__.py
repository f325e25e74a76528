"""The planner as a page and an API on this machine.

Nothing is imported here: only the modules that serve need the extra ``web``.
"""
