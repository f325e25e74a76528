"""What a review of the command line found, each as a statement of what must not happen again."""

import json
import os
import stat

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import audit
from fedconformal.cli import main
from fedconformal.documents import Answer


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "open.json").write_text(fc.plan(confidence_level=0.9).to_json())

    def refused(*arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("fedconformal: ")
        assert error.count("\n") == 1
        return error

    return refused


def changed(document, **changes):
    """The same document with other fields, and a digest that fits them."""
    fields = {name: getattr(document, name) for name in type(document).model_fields}
    return type(document)(**{**fields, **changes})


class TestFiles:
    def test_only_regular_files_are_replaced(self, refused, tmp_path):
        """As root, ``-o /dev/null --force`` once replaced the device by a file."""
        os.mkfifo(tmp_path / "pipe")
        assert "not a regular file" in refused("plan", "-o", "pipe", "--force")
        assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)

    def test_a_first_line_that_may_be_a_name_is_not_guessed_at(self, refused, tmp_path):
        """``pandas.Series(scores).to_csv(index=False)`` writes 0 above the scores."""
        (tmp_path / "scores.csv").write_text("0\n0.25\n1.5\n")
        assert "names or numbers?" in refused("report", "open.json", "scores.csv", "--site", "A")

    def test_whole_numbers_need_no_name(self, refused, tmp_path):
        (tmp_path / "scores.csv").write_text("0\n1\n2\n")
        assert main(["report", "open.json", "scores.csv", "--site", "A", "-o", "a.json"]) == 0
        assert fc.Report.read("a.json").n == 3

    def test_blank_lines_at_the_end_are_no_scores_but_a_gap_is(self, refused, tmp_path):
        (tmp_path / "scores.csv").write_text("0.5\n0.25\n1.5\n\n\n")
        assert main(["report", "open.json", "scores.csv", "--site", "A", "-o", "a.json"]) == 0
        assert fc.Report.read("a.json").n == 3
        (tmp_path / "gap.csv").write_text("0.5\n\n1.5\n")
        assert "row 2" in refused("report", "open.json", "gap.csv", "--site", "A")


class TestPredict:
    @pytest.fixture(autouse=True)
    def calibration(self, tmp_path):
        plan = fc.plan(confidence_level=0.8)
        reports = [fc.report(plan, np.arange(20.0), site=name) for name in "AB"]
        (tmp_path / "c.json").write_text(fc.calibrate(plan, reports).to_json())

    def test_other_columns_pass_through_unchanged(self, refused, tmp_path):
        (tmp_path / "p.csv").write_text("id,prediction\n007,1.5\n")
        assert main(["predict", "c.json", "p.csv", "--column", "prediction", "-o", "out.csv"]) == 0
        assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("007,1.5,")

    def test_no_column_is_overwritten(self, refused, tmp_path):
        (tmp_path / "p.csv").write_text("prediction,lower\n1,2\n")
        assert "has a column 'lower' already" in refused(
            "predict", "c.json", "p.csv", "--score", "absolute", "--column", "prediction"
        )

    def test_a_name_says_what_is_in_a_file(self, refused, tmp_path):
        (tmp_path / "p.csv").write_text("prediction\n1.5\n")
        assert ".csv or .parquet" in refused(
            "predict", "c.json", "p.csv", "--score", "absolute", "-o", "out.xlsx"
        )

    def test_json_holds_numbers(self, refused, tmp_path, capsys):
        (tmp_path / "p.csv").write_text("prediction\n1.5\n")
        assert main(["predict", "c.json", "p.csv", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["prediction"] == 1.5


class TestAudit:
    def holds(self, calibration, reports=None):
        again = fc.Calibration.from_json(calibration.to_json())
        return all(check.passed for check in audit.verify(again, reports))

    def test_answers_that_claim_more_scores_than_the_reports(self):
        plan = fc.plan(confidence_level=0.9, sites=["A", "B", "C"])
        reports = [
            fc.report(plan, np.random.default_rng(j).random(9), site=name) for j, name in enumerate("ABC")
        ]
        honest = fc.calibrate(plan, reports)
        assert self.holds(honest, reports)
        larger = [
            fc.Report(
                plan=plan.digest, site=r.site, n=999, ranks=plan.ranks_for(999, site=r.site), values=r.values
            )
            for r in reports
        ]
        forged = fc.calibrate(plan, larger)
        answers = tuple(
            Answer(site=a.site, n=a.n, ranks=a.ranks, report=r.digest)
            for a, r in zip(forged.answers, reports, strict=True)
        )
        assert not self.holds(changed(forged, answers=answers), reports)

    def test_a_finite_threshold_where_most_sites_sent_infinity(self):
        plan = fc.plan(confidence_level=0.9)
        reports = [fc.report(plan, np.random.default_rng(n).random(n), site=f"{n}") for n in (4, 5, 6, 40)]
        found = fc.calibrate(plan, reports)
        level = found.levels[0].model_copy(update={"threshold": 0.1, "server_rank": 3})
        assert not self.holds(changed(found, levels=(level,)))

    def test_another_rank_than_the_plan_fixed(self):
        plan = fc.plan(n_sites=5, n_points=50, confidence_level=0.9)
        found = fc.calibrate(
            plan, [fc.report(plan, np.random.default_rng(j).random(50), site=f"{j}") for j in range(5)]
        )
        assert self.holds(found)
        level = found.levels[0].model_copy(update={"server_rank": 5})
        assert not self.holds(changed(found, levels=(level,)))
