"""The planner as a server: limits that are sentences, strangers kept out, nothing that takes it down."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import schemathesis
from asking import get, post
from browsing import planner
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fedconformal.cli import main
from fedconformal.web import ASSETS, create_app, openapi
from fedconformal.web.planner import MOST_BYTES
from fedconformal.web.server._hosts import host_name
from fedconformal.web.server._serve import background, serve

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address():
    with planner() as url:
        yield urlsplit(url).netloc


LIMITS = [
    ({"sites": 10_001, "points": 5}, "less than or equal to 10000"),
    ({"sites": 0, "points": 5}, "greater than or equal to 1"),
    ({"sites": 3, "points": 1_000_001}, "less than or equal to 1000000"),
    ({"points": [5] * 10_001}, "at most 10000 items"),
    ({"points": list(range(1, 102))}, "up to 40 different sizes"),
    (
        {"points": list(range(100, 106)) * 4, "max_faulty": 2},
        "if sites may be wrong, sites may have up to 5",
    ),
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
    ({"sites": 3, "points": 20_000, "privacy": {"epsilon": 1}}, "may add up to 10,000 cases here"),
    ({"points": list(range(9, 29)), "privacy": {"epsilon": 1}}, "up to 12 different sizes"),
    ({"sites": 3, "points": 5, "privacy": {"epsilon": 1, "low": 2, "high": 1}}, "must go up, got 2 to 1"),
    ({"sites": 3, "points": 5, "privacy": {"epsilon": 1, "low": 1e11, "high": 100000000001}}, "too narrow"),
    ({"sites": 3, "points": 5, "width": 9999}, "less than or equal to 1200"),
    ({"sites": 3, "points": 5, "colour": "red"}, "Extra inputs are not permitted"),
    ({"sites": True, "points": 5}, "valid integer"),
    ({"sites": 3, "points": 5, "promise": "everybody"}, "promise must be one of"),
    ({"sites": 3, "points": 5, "criterion": "best"}, "criterion must be one of"),
    ({"sites": 9, "points": 5, "promise": "each-site", "criterion": "stable"}, "criterion must be"),
    ({"sites": 9, "points": 5, "promise": "each-site", "max_faulty": 1}, "max_faulty does not go with"),
    ({"sites": 9, "points": 5, "promise": "each-site", "numbers": 2}, "numbers must be 1 with promise"),
    ({"sites": 9, "points": 5, "numbers": 2, "privacy": {"epsilon": 1}}, "numbers must be 1 with privacy"),
    ({"sites": 9, "points": 5, "numbers": 21}, "less than or equal to 20"),
    ({"points": list(range(100, 130)), "numbers": 5}, "with 30 different sizes, numbers may be up to 4 here"),
    ({"sites": 9, "points": 5, "max_missing": 9}, "max_missing must be below the number of sites, 9, got 9"),
    ({"points": [5, 6], "names": ["a"]}, "one number for each of the 1 names, got 2"),
    ({"sites": 2, "points": 5, "names": ["a", "b"]}, "each of the 2 names, got one for all"),
    ({"points": [5, 6], "names": ["a", "a"]}, "names must be different, got 'a' 2 times"),
    ({"points": [5, 6], "names": ["a", " b"]}, "a site's name must be visible"),
    ({"points": [5, 6], "names": ["a", "\N{CYRILLIC SMALL LETTER A}"]}, "look alike"),
    ({"points": [5, 6], "names": ["a", "b" * 201]}, "at most 200 characters"),
    ({"sites": 3, "points": 5, "score": "best"}, "score must be one of"),
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

    def test_so_has_a_wish_for_many_numbers(self, address):
        asked = {"sites": 20, "points": 50, "numbers": 6, "wish": "mean", "value": 0.9}
        status, answer, _ = post(address, "/api/wish", asked)
        assert (status, "for up to 5 numbers per site" in answer["error"]) == (422, True)

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
    def test_a_port_that_is_taken(self, capsys):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert main(["planner", "--no-browser", "--port", str(port)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"fedconformal: port {port} of 127.0.0.1: Address already in use")
        assert len(said.splitlines()) == 1

    def test_a_port_that_cannot_be(self):
        for port in (-1, 65_536):  # of which the resolver would make another one
            with pytest.raises(ValueError, match=f"port must be between 0 and 65535, got {port}"):
                serve(port=port, browse=False)

    def test_a_host_that_does_not_exist(self, capsys):
        assert main(["planner", "--no-browser", "--host", "no such host"]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 2
        assert said[1].startswith("fedconformal: host 'no such host'")

    def test_names_can_be_allowed(self):
        with planner("--allow-host", "planner.example") as url:
            address = urlsplit(url).netloc
            assert get(address, "/", {"Host": "planner.example"})[0] == 200


def test_the_published_schema_is_the_served_one(address):
    published = json.loads((ROOT / "docs" / "schemas" / "planner.openapi.json").read_text())
    assert published == openapi() == json.loads(get(address, "/openapi.json")[1])


schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(["localhost", "testserver"]))


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def hasty():
    with background(seconds=0.2) as address:
        yield urlsplit(address)


class TestPatience:
    """Half a question keeps no connection open."""

    def ask(self, where, *pieces):
        """Send some bytes, then listen until the server closes."""
        with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
            for piece in pieces:
                connection.sendall(piece)
            received = b""
            while more := connection.recv(65_536):
                received += more
            return received

    @pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
    def test_the_head_of_a_request_must_arrive_in_time(self, hasty, sent):
        assert self.ask(hasty, sent) == b""

    def test_so_must_that_of_a_second_one(self, hasty):
        whole = f"GET / HTTP/1.1\r\nHost: {hasty.netloc}\r\n\r\n".encode()
        assert self.ask(hasty, whole, b"GET / HT").startswith(b"HTTP/1.1 200 OK")

    def test_a_whole_request_is_answered_however_long_that_takes(self, hasty):
        body = {"sites": 200, "points": 500, "criterion": "conditional"}
        assert post(hasty.netloc, "/api/plan", body)[0] == 200
