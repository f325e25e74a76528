"""What groups are made of: labels, classes, sites; and what a plan says of it."""

import json

import pytest

import fedconformal as fc
from documents.samples import with_digest
from fedconformal.protocol import class_places

SIZES = {"sick": {"A": 60, "B": 40}, "well": {"A": 50, "B": 90}}


def test_plans_are_what_they_were():
    """Digests of the first version of the format."""
    plain = fc.plan(10, 79)
    assert (
        plain.digest
        == "sha256:de1f3f6f996e362957248135cfc76d758ca2959b7ad1488bf6a6ad911bb1fd40"
    )
    grouped = fc.plan(groups={"a": None, "b": None}, n_sites=["A", "B"])
    assert (
        grouped.digest
        == "sha256:ef195c9c1de9501127b7251417089f7b88e12059d4b573fba22253df0419bbc8"
    )


def test_a_label_is_what_groups_are_made_of_if_nothing_is_said():
    plan = fc.plan(groups=SIZES)
    assert fc.plan(groups=SIZES, group_by="label") == plan
    assert plan.group_by is None
    assert plan.grouping.by_label
    assert not {"group_by", "classes"} & json.loads(plan.to_json()).keys()


@pytest.mark.parametrize(
    "made_of", ["class", ("site", "class"), ("class", "site"), ("site", "label")]
)
def test_round_trips(made_of):
    plan = fc.plan(groups=SIZES, group_by=made_of)
    assert fc.Plan.from_json(plan.to_json()) == plan
    assert plan.grouping.labels == ("sick", "well")
    assert plan.classes == (("sick", "well") if "class" in made_of else None)


def test_classes_keep_their_order():
    backwards = {label: SIZES[label] for label in reversed(SIZES)}
    assert fc.plan(groups=backwards, group_by="class").classes == ("well", "sick")
    assert fc.plan(
        groups=SIZES, group_by="class", terms={"classes": ["well", "sick"]}
    ).classes == (
        "well",
        "sick",
    )
    digits = {i: [30, 30] for i in range(11)}
    assert fc.plan(groups=digits, group_by="class").classes == tuple(
        map(str, range(11))
    )


def test_a_pair_belongs_to_its_own_site():
    """The site "A: B" with the label "c", and the site "A" with the label "B: c", would
    be one name.
    """
    plan = fc.plan(
        groups={"c": {"A: B": 30}, "d": {"A": 30}}, group_by=("site", "label")
    )
    assert plan.groups == ("A: B: c", "A: d")
    assert plan.grouping.groups_of(["c", "d"], "A: B") == ["A: B: c", None]
    assert plan.grouping.groups_of(["B: c", "d"], "A") == [None, "A: d"]
    with pytest.raises(
        ValueError, match="two pairs of a site and a label would be called 'A: B: c'"
    ):
        fc.plan(
            groups={"c": {"A: B": 30}, "B: c": {"A": 30}}, group_by=("site", "label")
        )


@pytest.mark.parametrize(
    ("made_of", "forge", "words"),
    [
        (
            "class",
            lambda c: c.pop("classes"),
            "groups by class are those of the classes",
        ),
        (
            "class",
            lambda c: c["classes"].append("other"),
            "groups by class are those of the classes",
        ),
        (
            "class",
            lambda c: c.update(classes=["sick", "sick"]),
            "classes must be different",
        ),
        (
            "class",
            lambda c: c.update(group_by=["class", "site"]),
            "groups must be made of",
        ),
        ("class", lambda c: c.update(group_by=["site"]), "each has one site"),
        (
            ("site", "class"),
            lambda c: c.update(group_by=["site"]),
            "must be named after its site",
        ),
        (
            ("site", "class"),
            lambda c: c["designs"][0]["sites"][0].update(names=["B"]),
            "'A: sick' must be named after its site, 'B'",
        ),
    ],
)
def test_plans_that_contradict_themselves_are_refused(made_of, forge, words):
    content = json.loads(fc.plan(groups=SIZES, group_by=made_of).to_json())
    forge(content)
    with pytest.raises(fc.DocumentError, match=words):
        fc.Plan.from_json(json.dumps(with_digest(content)))


def test_what_goes_with_groups_is_refused_without():
    content = json.loads(fc.plan(n_points=[30, 40]).to_json())
    content["group_by"] = ["class"]
    with pytest.raises(
        fc.DocumentError, match="group_by was given, but there are no groups"
    ):
        fc.Plan.from_json(json.dumps(with_digest(content)))


class TestColumns:
    @pytest.mark.parametrize(
        ("names", "places"),
        [
            (["well", "sick"], [1, 0]),
            (["p_well", "p_sick"], [1, 0]),
        ],
    )
    def test_they_are_found_by_name(self, names, places):
        assert class_places(names, ("sick", "well")).tolist() == places

    @pytest.mark.parametrize(
        "names", [["sick", "sick"], ["p_sick", "q_well"], ["sick", "well", "x"]]
    )
    def test_none_is_taken_for_another(self, names):
        with pytest.raises(
            ValueError, match="columns must be named after the classes, 'sick', 'well'"
        ):
            class_places(names, ("sick", "well"))
