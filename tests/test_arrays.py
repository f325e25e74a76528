"""Whatever holds numbers is an array: tensors, columns of pandas and polars."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fedconformal as fc
from fedconformal._util import number_array, plain_array

SCORES = np.random.default_rng(0).random(60).astype(np.float32)
BINS = fc.Bins.uniform(0, 1, 10)
EXPECTED = fc.conformalize({"A": SCORES[:40], "B": SCORES[40:]}).threshold


class Tensor:
    """What a tensor of PyTorch does when numpy asks for its numbers, without
    PyTorch.
    """

    def __init__(self, values, *, requires_grad=False, device="cuda", dtype="float32"):
        self.values, self.requires_grad, self.device, self.dtype = (
            values,
            requires_grad,
            device,
            dtype,
        )

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def detach(self):
        return Tensor(self.values, device=self.device, dtype=self.dtype)

    def cpu(self):
        return Tensor(
            self.values,
            requires_grad=self.requires_grad,
            device="cpu",
            dtype=self.dtype,
        )

    def float(self):
        return Tensor(self.values, requires_grad=self.requires_grad, device=self.device)

    def numpy(self):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad")
        if self.device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if self.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(self.values)


def torch_tensor(values):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.tensor(np.asarray(values), requires_grad=True)


FORMS = {
    "list": np.ndarray.tolist,
    "pandas": pd.Series,
    "pandas, nullable": lambda values: pd.Series(values, dtype="Float32"),
    "polars": pl.Series,
    "a tensor that needs a gradient": lambda values: Tensor(values, requires_grad=True),
    "a tensor in half precision": lambda values: Tensor(values, dtype="bfloat16"),
    "tensors of one number": lambda values: [
        Tensor(value, requires_grad=True) for value in values
    ],
    "torch": torch_tensor,
}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param


class TestEveryDoorTakesThem:
    def test_reports(self, form):
        plan = fc.plan(n_points={"A": 40, "B": 20})
        reports = [
            fc.report(plan, form(SCORES[:40]), site="A"),
            fc.report(plan, form(SCORES[40:]), site="B"),
        ]
        assert fc.calibrate(plan, reports).threshold == EXPECTED

    def test_conformalize(self, form):
        assert (
            fc.conformalize({"A": form(SCORES[:40]), "B": form(SCORES[40:])}).threshold
            == EXPECTED
        )
        assert (
            fc.conformalize(form(SCORES), sites=["A"] * 40 + ["B"] * 20).threshold
            == EXPECTED
        )
        curve = fc.conformalize(
            form(SCORES), sites=["A"] * 60, curve=BINS, confidence_level=[0.5, 0.9]
        )
        assert curve.thresholds == tuple(
            np.ceil(10 * fc.baselines.centralized(SCORES, level)) / 10
            for level in (0.5, 0.9)
        )

    def test_private_reports(self, form):
        """The noise, of a site and 10 bins, is not zero with probability below
        1e-20.
        """
        private = fc.conformalize(
            {"A": form(SCORES)}, privacy=fc.Privacy(100.0, BINS), confidence_level=0.8
        )
        assert (
            private.threshold
            == fc.conformalize(
                {"A": SCORES}, curve=BINS, confidence_level=0.8
            ).threshold
        )

    def test_intervals(self, form):
        found = fc.conformalize({"A": SCORES}, score="absolute")
        np.testing.assert_array_equal(
            found.predict_interval(form(SCORES)),
            found.predict_interval(SCORES.astype(float)),
        )

    def test_scores_and_metrics(self, form):
        absolute = fc.scores.Absolute()
        given, plain = (
            absolute.score(form(SCORES), form(SCORES[::-1].copy())),
            SCORES.astype(float),
        )
        np.testing.assert_array_equal(given, np.abs(plain - plain[::-1]))
        intervals = np.stack([plain - 1, plain + 1], axis=1)
        assert fc.metrics.regression_coverage_score(form(SCORES), intervals) == [1.0]

    def test_baselines(self, form):
        sites = [form(SCORES[:40]), form(SCORES[40:])]
        assert fc.baselines.centralized(sites, 0.9) == fc.baselines.centralized(
            form(SCORES), 0.9
        )
        assert fc.baselines.average(sites, 0.9) == fc.baselines.average(
            [SCORES[:40], SCORES[40:]], 0.9
        )

    def test_bins_of_private_plans(self, form):
        np.testing.assert_array_equal(BINS.place(form(SCORES)), BINS.place(SCORES))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series,
        pl.Series,
        np.array,
        lambda labels: pd.Series(labels, dtype="category"),
    ],
)
def test_labels_of_sites_and_groups_in_columns(column):
    sites, groups = ["A"] * 30 + ["B"] * 30, ["x", "y"] * 30
    expected = fc.conformalize(SCORES, sites=sites, groups=groups, confidence_level=0.8)
    found = fc.conformalize(
        SCORES, sites=column(sites), groups=column(groups), confidence_level=0.8
    )
    assert found == expected
    np.testing.assert_array_equal(
        found.threshold_of(column(groups)), [found[group].threshold for group in groups]
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"curve": BINS},
        {"promise": "mixture"},
        {"promise": "each-site"},
        {"confidence_level": [0.5, 0.8]},
    ],
    ids=str,
)
def test_scores_by_site_in_a_list_and_flat(options):
    parts, sites = [SCORES[:40], SCORES[40:]], ["1"] * 40 + ["2"] * 20
    expected = fc.conformalize({1: parts[0], 2: parts[1]}, **options)
    assert fc.conformalize(parts, **options) == expected
    assert fc.conformalize(SCORES, sites=sites, **options) == expected
    assert fc.Calibration.from_json(expected.to_json()) == expected


@pytest.mark.parametrize("group_by", ["label", ("site", "label")])
def test_a_site_that_is_too_small_for_every_group_is_left_out(group_by):
    sites, groups = ["A"] * 57 + ["B"] * 3, ["x", "y"] * 30
    options = {
        "group_by": group_by,
        "min_group": 5,
        "confidence_level": 0.8,
        "curve": BINS,
    }
    found = fc.conformalize(SCORES, sites=sites, groups=groups, **options)
    assert (found.answered, found.plan.site_names) == (("A",), ("A",))


def test_data_frames_of_probabilities():
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    found = fc.conformalize({"A": np.linspace(0, 0.5, 99)}, score="lac")
    for frame in (
        pd.DataFrame,
        pl.DataFrame,
        lambda values: pd.DataFrame(values).astype("Float64"),
    ):
        np.testing.assert_array_equal(
            found.predict_set(frame(table)), found.predict_set(table)
        )


@pytest.mark.parametrize(
    "missing", [pl.Series([0.1, None]), pd.Series([0.1, None], dtype="Float64")]
)
def test_a_missing_number_is_not_a_number(missing):
    np.testing.assert_array_equal(plain_array(missing), [0.1, np.nan])
    with pytest.raises(
        ValueError, match=r"scores contain NaN in 1 of 2 rows \(first: row 1\)"
    ):
        fc.conformalize({"A": missing})


@pytest.mark.parametrize(
    "wrong", [pl.Series(["a"]), pd.Series(["a"]), [object()], [[1], [1, 2]]]
)
def test_what_holds_no_numbers_is_refused(wrong):
    with pytest.raises(ValueError, match="y must be an array of numbers"):
        number_array("y", wrong)


def test_an_array_of_numpy_is_not_copied():
    assert plain_array(SCORES) is SCORES


class TestTorch:
    torch = None

    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    @pytest.mark.parametrize(
        "kind", ["bfloat16", "float16", "float32", "float64", "int64", "bool"]
    )
    def test_every_kind_of_number(self, kind):
        tensor = self.torch.tensor([0, 1, 1]).to(getattr(self.torch, kind))
        np.testing.assert_array_equal(plain_array(tensor), [0, 1, 1])

    def test_half_precision_is_exact(self):
        tensor = self.torch.rand(100, dtype=self.torch.bfloat16)
        np.testing.assert_array_equal(plain_array(tensor), tensor.double().numpy())

    def test_a_tensor_without_numbers_is_refused(self):
        with pytest.raises(ValueError, match="scores must be an array of numbers"):
            number_array("scores", self.torch.ones(2, device="meta"))
