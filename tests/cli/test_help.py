"""Help texts name every choice that there is."""

import re

from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.privacy import ANALYSES, MECHANISMS
from fedconformal.scores import SCORES


def test_plan_names_every_choice(process, tmp_path):
    printed = process("plan", "--help", cwd=tmp_path, env={"COLUMNS": "400", "PATH": "/usr/bin"}).stdout
    words = set(re.findall(r"[a-z][a-z-]*[a-z]", printed))
    for registry in (CRITERIA, PROMISES, MECHANISMS, ANALYSES, SCORES):
        assert set(registry) <= words
