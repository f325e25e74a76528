"""``fedconformal plan``: what is shown, bins, and options that do not go together."""

import re

import numpy as np
import pytest

import fedconformal as fc


def made(run, *arguments):
    return fc.Plan.from_json(run("plan", *arguments, "--json").out)


class TestWhatIsShown:
    def test_criterion_promise_and_faulty_sites_in_the_first_line(self, run):
        lines = [
            run("plan", "--sites", 11, "--points", 90, *options).out.splitlines()[0]
            for options in (
                (),
                ("--criterion", "marginal"),
                ("--criterion", "conditional:0.05", "--max-faulty", 1),
                ("--promise", "each-site"),
            )
        ]
        assert lines == [
            "11 sites, 90 points each; criterion stable",
            "11 sites, 90 points each; criterion marginal",
            (
                "11 sites, 90 points each; criterion conditional, delta 0.05, up to 1"
                " faulty"
            ),
            "11 sites, 90 points each; criterion marginal, for each site individually",
        ]

    def test_one_site_is_one_site(self, run):
        out = run("plan", "--sites", 1, "--points", 1).out
        assert out.startswith("1 site, 1 point each; ")
        assert "sizes come with the reports" in run("plan", "--sites", "A,B").out
        assert run("plan").out.startswith(
            "any number of sites, sizes come with the reports; "
        )

    def test_what_privacy_costs(self, run):
        order = (
            "--sites",
            3,
            "--points",
            300,
            "--epsilon",
            4,
            "--bins",
            "uniform:0:8:50",
        )
        out = run("plan", *order).out
        design = fc.Plan.from_json(run("plan", *order, "--json").out).designs[0]
        mean, std = fc.messages.of(design.message).expected(design, 0)
        assert "50 noisy counts" in out
        assert "Private: each site's answer has epsilon 4.\n" in out
        assert (
            f"expect a coverage of {mean:.4f} (standard deviation {std:.4f}) if scores"
            " are spread" in out
        )

    def test_votes_needed_and_whose_rank_is_whose(self, run):
        sizes = {"north": 120, "south": 40, "west": 377, "east": 88}
        points = ",".join(f"{name}={n}" for name, n in sizes.items())
        plan = fc.plan(n_points=sizes, numbers=3)
        out = run("plan", "--points", points, "--numbers", 3).out
        assert (
            max(len(line) for line in out.splitlines() if line.startswith("  ")) <= 80
        )
        total = 3 * sum(plan.weights)
        assert f"{plan.server_rank} of {total}" in out
        rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
        for name, ranks, weight in zip(
            sizes, plan.local_ranks, plan.weights, strict=True
        ):
            share = f"{300 * weight / total:.1f} %"
            for words in (
                ", ".join(map(str, ranks)),
                f"{3 * weight} ({weight} each)",
                share,
            ):
                assert words in rows[name]

    @pytest.mark.slow
    def test_many_numbers_fit_too(self, run):
        out = run(
            "plan", "--points", "A=100,B=80", "--numbers", 7, "--confidence-level", 0.5
        ).out
        assert (
            max(len(line) for line in out.splitlines() if line.startswith("  ")) <= 80
        )
        assert re.search(r"A +100 +\d+, \d+, \.\.\., \d+\b", out)

    def test_sites_without_names_are_told_by_their_sizes_and_many_sites_by_ranges(
        self, run
    ):
        out = run("plan", "--points", "120,40,377,88").out
        plan = fc.plan(n_points=[120, 40, 377, 88])
        assert f"ranks {min(plan.local_ranks)}-{max(plan.local_ranks)}" in out
        rows = [
            line.split()[2:5]
            for line in out.splitlines()
            if line.startswith("  1 site")
        ]
        expected = zip([120, 40, 377, 88], plan.local_ranks, plan.weights, strict=True)
        assert rows == [list(map(str, row)) for row in expected]
        sizes = {f"s{j}": 100 + 20 * j for j in range(13)}
        plan = fc.plan(n_points=sizes)
        out = run(
            "plan", "--points", ",".join(f"{name}={n}" for name, n in sizes.items())
        ).out
        assert (
            f"A site has {min(plan.weights)} to {max(plan.weights)} votes, larger ones"
            " more.\n" in out
        )
        assert "of votes" not in out

    def test_sites_that_are_not_asked_or_may_be_missing_are_named(self, run):
        out = run("plan", "--points", "A=12000,B=40").out
        assert re.search(r"B +40 +not asked +0 +0\.0 %", out)
        assert (
            "1 site is not asked, as its answer could not change any threshold: B."
            in out
        )
        assert "one missing site could make the threshold infinite" in out
        borne = run("plan", "--points", "A=120,B=100,C=80", "--max-missing", 1).out
        assert borne.startswith(
            "3 sites, 80 to 120 points; criterion stable, tolerates 1 missing site\n"
        )
        assert "could make the threshold infinite" not in borne

    def test_what_would_be_enough(self, run):
        out = run("plan", "--sites", 3, "--points", 2).out
        assert "infinite" in out
        assert (
            "so the threshold is infinite. You need 3 cases per site, or 5 sites of 2"
            " cases.\n" in out
        )

    def test_a_level_that_is_reached_is_promised_beside_one_that_is_not(self, run):
        levels = ("--confidence-level", 0.5, "--confidence-level", 0.9)
        out = run("plan", "--sites", 2, "--points", 3, *levels).out
        assert (
            "Promised: On average, the truth lies inside the prediction set for at"
            " least 50 %" in out
        )
        assert "at least 90 %" not in out
        assert (
            out.count(
                "90 % coverage on average cannot be guaranteed with 2 sites of 3 cases"
            )
            == 1
        )
        assert "Promised" not in run("plan", "--sites", 2, "--points", 3).out


class TestSizes:
    def test_a_file_of_sizes(self, desk, run):
        (desk / "sizes.csv").write_text("site,n\nA,40\nB,60\nC,50\n")
        assert made(run, "--points", "sizes.csv").site_names == ("A", "B", "C")

    @pytest.mark.parametrize(
        ("table", "words"),
        [
            ("site,n\nA,40\nA,50\n", "site 'A' occurs twice"),
            ("site,n\nA,4.5\n", "whole numbers"),
            ("name,n\nA,4\n", "no column 'site'"),
            ("site,n\nA,0\n", "--points"),
        ],
    )
    def test_tables_of_sizes(self, desk, run, table, words):
        (desk / "sizes.csv").write_text(table)
        assert words in run("plan", "--points", "sizes.csv", code=2).err


class TestGroups:
    def test_by_hand_and_open(self, run):
        found = made(
            run,
            "--group",
            "a:A=30,B=40",
            "--group",
            "b:c:30,40",
            "--group",
            "d",
            "--group",
            "e:f:",
        )
        sizes = {"a": {"A": 30, "B": 40}, "b:c": [30, 40], "d": None, "e:f": None}
        assert found == fc.plan(groups=sizes)

    def test_from_a_table_and_more_by_hand(self, group_desk, run, group_plan):
        assert (
            made(run, "--points", "sizes.csv", "--confidence-level", 0.8) == group_plan
        )
        more = made(run, "--points", "sizes.csv", "--group", "elder")
        assert more.groups == ("child", "elder", "old", "young")

    def test_every_group_is_shown(self, run):
        sizes = [
            "--group",
            "young:A=120,B=40",
            "--group",
            "old:A=100,B=300",
            "--group",
            "child",
        ]
        out = run("plan", *sizes, "--criterion", "conditional").out
        assert out.startswith("3 groups; criterion conditional, delta 0.1\n")
        rows = [
            line.split()
            for line in out.splitlines()
            if line.startswith(("  old", "  young"))
        ]
        assert re.search(r"^  child +any +open +0.9 +rank", out, re.MULTILINE)
        assert [row[:3] for row in rows] == [
            ["old", "2", "100-300"],
            ["young", "2", "40-120"],
        ]
        law = fc.plan(groups={"old": {"A": 100, "B": 300}}, criterion="conditional")[
            "old"
        ].law
        assert f"{law.mean():.4f}" in rows[0]

    def test_a_group_without_a_finite_threshold_says_what_would_do(self, run):
        out = run("plan", "--group", "adult:160,120,30", "--group", "infant:5,0,0").out
        assert (
            "Group 'infant': 90 % coverage on average cannot be guaranteed with 1 site"
            " of 5 cases" in out
        )

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--group", "a:30,x"), "whole number"),
            (("--group", "b:c"), "whole number"),
            (("--group", "a:30,30", "--group", "a"), "group 'a' occurs twice"),
            (("--group", "a:A=3,A=4"), "site 'A' occurs twice"),
            (
                ("--points", "30", "--group", "a:30"),
                "--points must be a table with columns group, site",
            ),
            (
                ("--points", "A.csv", "--group", "a"),
                "--points must be a table with columns group, site",
            ),
            (("--points", "twice.csv"), "group 'a': site 'A' occurs twice"),
            (("--points", "half.csv"), "whole numbers"),
            (("--group", "a\tb"), "a label must be printable"),
            (("--group", ":30,30"), "at least 1 character"),
            (
                ("--group", "a:30,30", "--promise", "each-site", "--numbers", "2"),
                "numbers must be 1",
            ),
        ],
    )
    def test_mistakes_get_one_line(self, group_desk, run, arguments, words):
        (group_desk / "twice.csv").write_text("group,site,n\na,A,3\na,A,4\n")
        (group_desk / "half.csv").write_text("group,site,n\na,A,3.5\n")
        assert words in run("plan", *arguments, code=2).err


class TestScores:
    def test_parameters_by_name(self, run):
        three = ["--sites", 3, "--points", 30]
        plan = made(run, *three, "--score", "raps:penalty=0.02,k_reg=3")
        assert plan.score.parameters == {
            "penalty": 0.02,
            "k_reg": 3,
            "randomized": False,
        }
        drawn = made(run, *three, "--score", "aps:randomized=true")
        assert drawn.score.parameters["randomized"] is True

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--score", "best"], "--score best: score must be one of "),
            (
                ["--score", "absolute:penalty=1"],
                "score 'absolute' has no parameter 'penalty'",
            ),
            (
                ["--score", "raps:penalty"],
                "--score must be raps:PARAMETER=VALUE,..., got 'penalty'",
            ),
            (["--score", "raps:penalty=1,penalty=1"], "'penalty' occurs twice"),
            (["--score", "raps:k_reg=few"], "k_reg must be an integer"),
            (["--score", 'raps:k_reg="3"'], "k_reg must be an integer"),
        ],
    )
    def test_mistakes_get_one_line(self, run, options, words):
        assert words in run("plan", "--sites", 3, "--points", 30, *options, code=2).err


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--confidence-level", 90], "--confidence-level"),
            (["--promise", "everybody"], "promise must be one of '"),
            (
                ["--criterion", "stable:0.1"],
                "--criterion stable takes no delta, got 'stable:0.1'",
            ),
            (
                ["--criterion", "conditional:x"],
                "--criterion must be conditional:DELTA with a number",
            ),
            (["--criterion", "conditional:0.9"], "delta must be "),
            (
                ["--numbers", 2, "--promise", "each-site"],
                "numbers must be 1 with promise 'each-site'",
            ),
            (
                ["--numbers", 2, "--curve", "uniform:0:1:9"],
                "--numbers must be left out with curves",
            ),
            (["--max-missing", -1], "--max-missing"),
            (["--curve", "uniform:0:1:9", "--paper"], "--paper"),
            (["--target", "each-site"], "No such option"),
            (
                ["--term", "color=red"],
                "--term must be one of round, model, expires, classes, name,",
            ),
        ],
    )
    def test_wishes_that_cannot_be_met(self, run, options, words):
        assert words in run("plan", "--sites", 3, "--points", 30, *options, code=2).err

    def test_numbers_names_and_keys(self, run):
        assert "whole number" in run("plan", "--points", "3,x", code=2).err
        assert "site 'A' occurs twice" in run("plan", "--points", "A=3,A=4", code=2).err
        assert (
            "--key" in run("plan", "--points", "A=30", "--key", "nonsense", code=2).err
        )
        twice = ["--key", "A=ed25519:0", "--key", "A=ed25519:1"]
        assert (
            "site 'A' occurs twice"
            in run("plan", "--points", "A=30", *twice, code=2).err
        )

    def test_no_place_to_write(self, desk, run):
        three = ["plan", "--sites", 3, "--points", 30]
        assert "does not exist" in run(*three, "-o", "no/plan.json", code=2).err
        assert "is a directory" in run(*three, "-o", ".", code=2).err
        assert "/proc" in run(*three, "-o", "/proc/plan.json", code=2).err


FEDERATION = ("--sites", 10, "--points", 300)
PRIVATE = (*FEDERATION, "--epsilon", 2)


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def bins(run, *options):
    message = fc.Plan.from_json(run("plan", *options, "--json").out).message
    return fc.Bins(message.edges, bounded=message.bounded)


@pytest.mark.parametrize("options", [(*PRIVATE, "--bins"), (*FEDERATION, "--curve")])
def test_edges(run, options):
    assert bins(run, *options, "edges:0.1,0.5,2") == fc.Bins([0.1, 0.5, 2.0])
    np.savetxt("edges.csv", [0.1, 0.5, 1.0], header="edge", comments="")
    assert bins(run, *options, "edges:edges.csv:bounded") == fc.Bins(
        [0.1, 0.5, 1.0], bounded=True
    )
    for text in (
        "grid:1:2:3",
        "uniform:0:1",
        "uniform:8:0:50",
        "edges:",
        "edges:1,0",
        "log:a:b:3",
        "from:nowhere.csv",
        "from:edges.csv:bounded",
    ):
        assert f"{options[-1]} '{text}'" in run("plan", *options, text, code=2).err


def test_a_bounded_score_needs_no_bins(run):
    assert bins(run, *PRIVATE, "--score", "lac") == fc.Bins.uniform(
        0, 1, 190, bounded=True
    )
    error = run("plan", *PRIVATE, "--score", "absolute", code=2).err
    assert "needs bins, as score 'absolute' is unbounded" in error
    assert "--bins from:FILE" in error


def test_bins_from_public_scores(run, tmp_path):
    scores = np.random.default_rng(0).random(500).round(4)
    expected = fc.Bins.from_reference(scores)
    assert len(expected.edges) == 100
    np.savetxt("public.csv", scores, header="score", comments="")
    assert bins(run, *PRIVATE, "--bins", "from:public.csv") == expected
    rows = [f"{i};{score}".replace(".", ",") for i, score in enumerate(scores)]
    (tmp_path / "two.csv").write_text("\n".join(["case;score", *rows, ""]))
    assert (
        "(case, score), and one is needed"
        in run("plan", *PRIVATE, "--bins", "from:two.csv", code=2).err
    )
    (tmp_path / "commas.csv").write_text(
        "\n".join(["score", *(row.split(";")[1] for row in rows), ""])
    )
    assert bins(run, *PRIVATE, "--bins", "from:commas.csv") == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--bins", "uniform:0:1:9"],
            "--bins goes with --epsilon; for exact counts give --curve",
        ),
        (
            ["--curve", "uniform:0:1:9", "--epsilon", 1],
            "--curve and --epsilon do not go together",
        ),
        (["--epsilon", 1, "--bins", "from:nowhere.csv"], "nowhere.csv: no such file"),
        (
            ["--epsilon", 1, "--bins", "from:A.csv:bounded"],
            ":bounded goes behind all but from:FILE",
        ),
    ],
)
def test_options_that_do_not_go_together(run, options, words):
    assert words in run("plan", "--sites", 3, "--points", 300, *options, code=2).err
