"""The planner's API: the library's own answers, limits that are sentences, and nothing that takes it down."""

import http.client
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run
from urllib.parse import urlsplit

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import fedconformal as fc
from browsing import planner
from fedconformal.pages._words import ceiling_percent, floor_percent, percent
from fedconformal.planner import create_app, openapi
from fedconformal.planner._app import ASSETS
from fedconformal.planner._guard import host_name
from fedconformal.planner._questions import MOST_BYTES, PlanQuestion, PlanRequest, PrivacyWish, WishRequest
from fedconformal.planner._solve import expected_mean, solve
from fedconformal.planner._wish import AbandonedError, _step_of, _two_digits, edge, grant

ROOT = Path(__file__).parent.parent
SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture(scope="module")
def address():
    with planner() as url:
        yield urlsplit(url).netloc


def post(address, path, body, headers=None):
    connection = http.client.HTTPConnection(address, timeout=120)
    try:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, content, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, json.loads(response.read()), response.headers
    finally:
        connection.close()


def get(address, path, headers=None):
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


class TestAnswers:
    def test_they_are_the_librarys(self, address):
        status, answer, _ = post(address, "/api/plan", {"sites": 10, "points": 79, "criterion": "stable"})
        plan = fc.plan(10, 79, criterion="stable")
        ours, pooled, alone = answer["rows"]
        assert (status, answer["feasible"], answer["draft"]) == (200, True, False)
        assert (ours["mean"], ours["std"]) == (plan.law.mean(), plan.law.std())
        assert (ours["unlucky"], ours["reached"]) == (plan.law.ppf(0.05), plan.law.sf(0.9))
        assert pooled["mean"] == pytest.approx(712 / 791)
        assert alone["mean"] == pytest.approx(72 / 80)
        assert f"number {plan.local_ranks[0]} from the smallest" in answer["steps"][0]
        assert f"number {plan.server_rank} of the 10" in answer["steps"][1]

    def test_missing_sites_are_solved_for_as_the_server_would(self):
        question = PlanQuestion(points=(60, 60, 90, 200), missing=1, confidence_level=0.8)
        plan = fc.plan(n_points=[60, 60, 90, 200], confidence_level=0.8)
        rng = np.random.default_rng(0)
        reports = [fc.report(plan, rng.random(n), site=f"{i}") for i, n in enumerate((60, 60, 90))]
        calibration = fc.calibrate(plan, reports)
        solution = solve(question)
        assert solution.server_rank == plan.server_rank
        assert solution.server_rank_left == calibration.server_rank
        assert solution.left.mean == pytest.approx(calibration.law.mean(), abs=1e-14)

    def test_a_private_plan_costs_what_the_library_says(self):
        question = PlanQuestion(sites=5, points=200, privacy=PrivacyWish(epsilon=2.0, bins=50))
        plan = fc.plan(5, 200, privacy=fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 50)))
        (cost,) = fc.privacy.expected_cost(plan)
        assert expected_mean(solve(question)) == pytest.approx(cost.expected, abs=1e-14)

    @pytest.mark.parametrize(
        "question",
        [
            {"points": (120, 40, 377), "criterion": "conditional"},
            {"sites": 10, "points": 500, "privacy": PrivacyWish(epsilon=1.0)},
            {"points": (100, 200, 200), "max_faulty": 1, "privacy": PrivacyWish(epsilon=4.0, bins=20)},
        ],
    )
    def test_a_draft_keeps_the_promise_too(self, question):
        draft = solve(PlanQuestion(**question), draft=True)
        assert draft.is_draft
        assert draft.feasible
        if question.get("criterion") == "conditional":
            assert draft.all.reached >= 0.9
        else:
            assert draft.all.mean >= 0.9

    def test_silence_can_make_a_plan_infeasible(self, address):
        asked = {"sites": 10, "points": 2, "missing": 8}
        _, answer, _ = post(address, "/api/plan", asked)
        assert not answer["feasible"]
        assert answer["notes"] == [
            "With all 10 sites there is a finite threshold; with 8 silent there is none."
        ]
        assert answer["picture"] is None

    def test_the_document_is_the_plan(self, address):
        asked = {"points": [120, 40, 377], "max_faulty": 1, "missing": 0}
        status, document, headers = post(address, "/api/document", asked)
        assert status == 200
        assert headers["Content-Disposition"] == 'attachment; filename="plan.json"'
        assert fc.Plan.from_json(json.dumps(document)) == fc.plan(n_points=[120, 40, 377], max_faulty=1)


class TestWishes:
    @given(edge_at=st.integers(1, 1000), start=st.integers(1, 1000))
    def test_the_edge_is_found_wherever_the_search_begins(self, edge_at, start):
        assert edge(lambda n: n >= edge_at, start=start, stop=1000) == edge_at

    def test_no_edge_is_said(self):
        assert edge(lambda n: False, start=3, stop=1000) is None

    @pytest.mark.parametrize("epsilon", [0.01, 0.011, 0.5, 0.99, 1.0, 3.8, 99.0, 100.0])
    def test_epsilons_have_two_digits(self, epsilon):
        assert _two_digits(_step_of(epsilon)) == pytest.approx(max(epsilon, 0.011))

    def test_a_private_wish_names_an_epsilon(self):
        asked = {"sites": 3, "points": 100, "privacy": PrivacyWish(epsilon=5.0, bins=10)}
        granted = grant(WishRequest(**asked, wish="mean", value=0.93))
        assert granted.epsilon is not None
        for epsilon, enough in ((granted.epsilon, True), (_two_digits(_step_of(granted.epsilon) - 1), False)):
            plan = fc.plan(3, 100, privacy=fc.Privacy(epsilon=epsilon, bins=fc.Bins.uniform(0, 1, 10)))
            assert (fc.privacy.expected_cost(plan)[0].expected <= 0.93) == enough

    def test_the_search_ends_when_nobody_waits(self):
        with pytest.raises(AbandonedError):
            grant(WishRequest(sites=3, points=10, wish="mean", value=0.95), lambda: True)


LIMITS = [
    ({"sites": 10_001, "points": 5}, "less than or equal to 10000"),
    ({"sites": 0, "points": 5}, "greater than or equal to 1"),
    ({"sites": 3, "points": 1_000_001}, "less than or equal to 1000000"),
    ({"points": [5] * 10_001}, "at most 10000 items"),
    ({"points": list(range(1, 102))}, "up to 40 different sizes"),
    ({"points": list(range(100, 106)) * 4, "max_faulty": 2}, "sites that lie, points may hold up to 5"),
    ({"points": [100, 101] * 101, "max_faulty": 2}, "there may be up to 200 sites"),
    ({"points": list(range(1, 41)) * 3}, "with 40 different sizes there may be up to 100 sites here"),
    ({"points": []}, "at least 1 item"),
    ({"points": 5}, "sites is needed"),
    ({"points": [5, 6], "sites": 3}, "points lists 2 sites, but sites is 3"),
    ({"sites": 3, "points": 5, "missing": 3}, "missing must be below the number of sites, 3, got 3"),
    ({"sites": 4, "points": 5, "max_faulty": 2}, "max_faulty must be below half"),
    ({"sites": 3, "points": 5, "confidence_level": 1.0}, "less than or equal to 0.9999"),
    ({"sites": 3, "points": 5, "privacy": {"epsilon": 0}}, "greater than or equal to 0.001"),
    ({"sites": 3, "points": 5, "privacy": {"epsilon": 1, "bins": 1001}}, "less than or equal to 1000"),
    ({"sites": 3, "points": 20_000, "privacy": {"epsilon": 1}}, "may add up to 10,000 points here"),
    ({"points": list(range(9, 29)), "privacy": {"epsilon": 1}}, "up to 12 different sizes"),
    ({"sites": 3, "points": 5, "privacy": {"epsilon": 1, "low": 2, "high": 1}}, "must go up, got 2 to 1"),
    ({"sites": 3, "points": 5, "privacy": {"epsilon": 1, "low": 1e11, "high": 100000000001}}, "too narrow"),
    ({"sites": 3, "points": 5, "width": 9999}, "less than or equal to 1200"),
    ({"sites": 3, "points": 5, "colour": "red"}, "Extra inputs are not permitted"),
    ({"sites": True, "points": 5}, "valid integer"),
    (b"{", "Invalid JSON"),
    (b"[" * 100_000, "recursion limit"),
    (b'{"sites": 3, "points": 5, "confidence_level": NaN}', "finite number"),
    (b" " * (MOST_BYTES + 1), "the body may have up to 128 KB"),
    (b"\xff\xfe", "Invalid JSON"),
]


class TestLimits:
    @pytest.mark.parametrize(("body", "words"), LIMITS, ids=range(len(LIMITS)))
    def test_each_is_a_sentence(self, address, body, words):
        status, answer, _ = post(address, "/api/plan", body)
        assert status == 422
        assert words in answer["error"]

    def test_a_private_wish_has_a_limit_of_its_own(self, address):
        asked = {"sites": 2000, "points": 50, "privacy": {"epsilon": 1}, "wish": "mean", "value": 0.9}
        status, answer, _ = post(address, "/api/wish", asked)
        assert (status, "a wish is searched for up to 1,000 sites" in answer["error"]) == (422, True)

    def test_other_content_is_refused(self, address):
        asked = {"sites": 3, "points": 5}
        status, answer, _ = post(address, "/api/plan", asked, {"Content-Type": "text/plain"})
        assert (status, answer["error"]) == (
            415,
            "the body must be JSON, with the content type application/json",
        )

    def test_two_hundred_at_once_are_answered(self, address):
        asked = [{"sites": 5 + i % 20, "points": 50 + i, "draft": True} for i in range(200)]
        with ThreadPoolExecutor(200) as pool:
            statuses = list(pool.map(lambda body: post(address, "/api/plan", body)[0], asked))
        assert statuses == [200] * 200


class TestGuard:
    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
    def test_other_names_are_refused(self, address, host):
        status, body, _ = get(address, "/", {"Host": host})
        assert (status, "does not go by the name" in body.decode()) == (421, True)

    def test_other_origins_are_refused(self, address):
        headers = {"Origin": "http://evil.example"}
        assert post(address, "/api/plan", {"sites": 3, "points": 50}, headers)[0] == 403
        headers = {"Origin": f"http://{address}"}
        assert post(address, "/api/plan", {"sites": 3, "points": 50}, headers)[0] == 200

    def test_no_cross_origin_headers_and_a_strict_policy(self, address):
        for path in (*ASSETS, "/openapi.json", "/nothing"):
            status, _, headers = get(address, path)
            assert status == (404 if path == "/nothing" else 200)
            assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
            assert "Access-Control-Allow-Origin" not in headers

    def test_a_wrong_method_is_refused_in_a_sentence(self, address):
        status, body, headers = get(address, "/api/plan")
        assert (status, headers["Allow"], json.loads(body)) == (
            405,
            "POST",
            {"error": "Method Not Allowed"},
        )

    @pytest.mark.parametrize(
        ("header", "name"), [("LOCALHOST:1", "localhost"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("a", "a")]
    )
    def test_names_in_headers(self, header, name):
        assert host_name(header) == name


class TestPage:
    def test_it_is_light(self, address):
        assert sum(len(get(address, path)[1]) for path in ASSETS) < 100_000

    def test_it_names_nothing_elsewhere(self, address):
        for path in ASSETS:
            text = get(address, path)[1].decode().replace("http://www.w3.org/2000/svg", "")
            assert "http://" not in text
            assert "https://" not in text
            assert "url(" not in text


class TestCommand:
    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            command = [sys.executable, "-m", "fedconformal", "planner", "--no-browser", "--port", str(port)]
            done = run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert done.stderr.startswith(f"fedconformal: port {port} of 127.0.0.1: Address already in use")
        assert len(done.stderr.splitlines()) == 1

    def test_a_host_that_does_not_exist(self):
        command = [sys.executable, "-m", "fedconformal", "planner", "--no-browser", "--host", "no such host"]
        done = run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr.count("\n")) == (2, 2)
        assert done.stderr.splitlines()[1].startswith("fedconformal: host 'no such host'")

    def test_names_can_be_allowed(self):
        with planner("--allow-host", "planner.example") as url:
            address = urlsplit(url).netloc
            assert get(address, "/", {"Host": "planner.example"})[0] == 200


def test_the_published_schema_is_the_served_one(address):
    published = json.loads((ROOT / "docs" / "schemas" / "planner.openapi.json").read_text())
    assert published == openapi() == json.loads(get(address, "/openapi.json")[1])


class TestWords:
    def test_lower_bounds_are_rounded_down_and_upper_ones_up(self):
        assert floor_percent(0.87999) == f"87.9{SPACE}%"
        assert floor_percent(0.29, digits=0) == f"29{SPACE}%"
        assert ceiling_percent(0.9001) == f"90.1{SPACE}%"
        assert percent(0.9) == f"90{SPACE}%"
        assert percent(0.9995) == f"99.95{SPACE}%"

    @given(st.floats(0, 1), st.integers(0, 4))
    def test_rounding_never_promises_more(self, value, digits):
        shown = float(floor_percent(value, digits=digits).split(SPACE)[0]) / 100
        assert shown <= value + 1e-15
        assert shown > value - 1.01 * 10.0 ** -(digits + 2)


schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(["localhost", "testserver"]))


@schema.parametrize()
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_api(case):
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    case.call_and_validate(checks=checks)


def test_requests_are_remembered_by_what_they_ask():
    first, second = (PlanRequest(sites=4, points=30, width=width) for width in (300, 900))
    assert first != second
    assert hash(first.question) == hash(second.question)
    assert first.question == second.question
