"""The planner as a server: limits that are sentences, strangers kept out, nothing that
takes it down.
"""

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest
from asking import ask, post
from browsing import planner

import fedconformal as fc
from fedconformal.cli import main
from fedconformal.pages import _server, create_app, serve
from fedconformal.pages._server import MOST_BYTES, TOO_MUCH, background

PATHS = (
    "/",
    "/assets/common.css",
    "/assets/planner.css",
    "/assets/planner.js",
    "/assets/icon.svg",
)
ASKED = {"sites": 3, "points": 50}


@pytest.fixture(scope="module")
def address():
    with background() as url:
        yield urlsplit(url).netloc


LIMITS = [
    ({"sites": 10_001, "points": 5}, "less than or equal to 10000"),
    ({"points": [5] * 10_001}, "at most 10000 items"),
    ({"points": list(range(1, 102))}, "up to 40 different sizes"),
    (
        {"points": list(range(100, 106)) * 4, "max_faulty": 2},
        "if sites may be wrong, sites may have up to 5",
    ),
    ({"points": [100, 101] * 101, "max_faulty": 2}, "there may be up to 200 sites"),
    (
        {"points": list(range(1, 41)) * 3},
        "with 40 different sizes there may be up to 100 sites here",
    ),
    ({"points": 5}, "sites is needed"),
    ({"points": [5, 6], "sites": 3}, "points lists 2 sites, but sites is 3"),
    (
        {"sites": 3, "points": 5, "missing": 3},
        "missing must be below the number of sites, 3, got 3",
    ),
    (
        {"sites": 9, "points": 5, "max_missing": 9},
        "max_missing must be below the number of sites, 9, got 9",
    ),
    ({"sites": 4, "points": 5, "max_faulty": 2}, "max_faulty must be below half"),
    (
        {"sites": 3, "points": 5, "confidence_level": 1.0},
        "less than or equal to 0.9999",
    ),
    (
        {"sites": 3, "points": 5, "privacy": {"epsilon": 0}},
        "greater than or equal to 0.001",
    ),
    (
        {"sites": 3, "points": 5, "privacy": {"epsilon": 1, "bins": 1001}},
        "less than or equal to 1000",
    ),
    (
        {"sites": 3, "points": 50, "privacy": {"epsilon": 1}, "numbers": 2},
        "numbers must be left out with",
    ),
    (
        {"sites": 3, "points": 50, "privacy": {"epsilon": 1}, "max_faulty": 1},
        "max_faulty must be 0 with",
    ),
    (
        {"sites": 3, "points": 50, "privacy": {"epsilon": 1}, "promise": "new-site"},
        "promise must be",
    ),
    (
        {
            "sites": 3,
            "points": 5,
            "privacy": {"epsilon": 1, "low": 1e11, "high": 100000000001},
        },
        "too narrow",
    ),
    ({"sites": 3, "points": 5, "colour": "red"}, "Extra inputs are not permitted"),
    ({"sites": True, "points": 5}, "valid integer"),
    ({"sites": 3, "points": 5, "promise": "everybody"}, "promise must be one of"),
    (
        {"sites": 9, "points": 5, "promise": "each-site", "criterion": "stable"},
        "criterion must be",
    ),
    (
        {"sites": 9, "points": 5, "promise": "each-site", "max_faulty": 1},
        "max_faulty must be 0 with promise",
    ),
    (
        {"sites": 9, "points": 5, "promise": "each-site", "numbers": 2},
        "numbers must be 1 with promise",
    ),
    (
        {"points": list(range(100, 130)), "numbers": 5},
        "with 30 different sizes, numbers may be up to 4 here",
    ),
    ({"points": [5, 6], "names": ["a"]}, "one number for each of the 1 names, got 2"),
    (
        {"points": [5, 6], "names": ["a", "a"]},
        "names must be different, got 'a' 2 times",
    ),
    ({"points": [5, 6], "names": ["a", " b"]}, "a site's name must be visible"),
    ({"points": [5, 6], "names": ["a", "\N{CYRILLIC SMALL LETTER A}"]}, "look alike"),
    (b"{", "Invalid JSON"),
    (b"[" * 100_000, "recursion limit"),
    (b"[1, 2]", "should be an object"),
    (b'{"sites": 3, "points": 5, "confidence_level": NaN}', "finite number"),
    (b'{"sites": 3, "points": 1e999}', "valid integer"),
    (b'{"sites": 3, "points": "\\ud800"}', "Invalid JSON"),
    (b" " * (MOST_BYTES + 1), "the body may have up to 128 KB"),
    (b"\xff\xfe", "Invalid JSON"),
]


class TestBadRequests:
    @pytest.mark.parametrize(("body", "words"), LIMITS, ids=range(len(LIMITS)))
    def test_each_is_refused_in_a_sentence_whatever_it_is_asked_of(
        self, address, body, words
    ):
        for path in ("plan", "document"):
            status, answer = post(address, f"/api/{path}", body)
            assert status == 422
            assert words in answer["error"]

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("/api/cases", "coverage must be a number"),
            ("/api/cases?coverage=many", "coverage must be a number"),
            ("/api/cases?coverage=nan", "coverage must be a number"),
            ("/api/cases?coverage=-inf", "coverage must be between 0 and 1, got -inf"),
            ("/api/plan?width=wide", "width must be a number"),
            ("/api/plan?width=nan", "width must be a number"),
        ],
    )
    def test_so_are_parameters(self, address, path, words):
        assert post(address, path, ASKED) == (422, {"error": words})

    def test_the_other_answers_refuse_them_too(self, address):
        for path in ("promises", "cases?coverage=0.8"):
            status, answer = post(address, f"/api/{path}", {"points": 5})
            assert (status, "sites is needed" in answer["error"]) == (422, True)

    def test_a_width_is_bounded(self, address):
        for width, shown in ((1, 280), ("1e300", 1200), ("inf", 1200)):
            assert (
                f'width="{shown}"'
                in post(address, f"/api/plan?width={width}", ASKED)[1]
            )

    def test_other_content_is_refused(self, address):
        """No page of another origin can send JSON unasked, which would need our
        consent.
        """
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            status, answer = post(address, "/api/plan", ASKED, {"Content-Type": kind})
            assert status == 415
            assert (
                answer["error"]
                == "the body must be JSON, with the content type application/json"
            )
        preflight = {
            "Origin": "http://evil.example",
            "Access-Control-Request-Method": "POST",
        }
        status, _, headers = ask(address, "OPTIONS", "/api/plan", headers=preflight)
        assert status == 405
        assert "Access-Control-Allow-Origin" not in headers

    @pytest.mark.slow
    def test_many_at_once_are_answered(self, address):
        asked = [{"sites": 5 + i % 20, "points": 50 + i} for i in range(12)]
        with ThreadPoolExecutor(12) as pool:
            statuses = list(
                pool.map(lambda body: post(address, "/api/plan", body)[0], asked)
            )
        assert statuses == [200] * 12

    @pytest.mark.parametrize(
        "sent",
        [b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 99_999],
    )
    def test_what_is_no_request_takes_nothing_down(self, address, sent):
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port))) as connection:
            try:
                connection.sendall(sent)
                assert b"400 Bad Request" in connection.recv(65_536)
            except ConnectionError:  # closed while it was still being sent
                pass
        assert ask(address, "GET", "/")[0] == 200


class TestAnswers:
    @pytest.mark.slow
    def test_a_plan_its_document_the_promises_and_the_cases_needed(self, address):
        asked = {"points": [120, 40, 377], "max_faulty": 1}
        status, answer = post(address, "/api/plan?compare=yes", asked)
        assert (status, 'id="headline">On average, the truth' in answer) == (200, True)
        status, document = post(address, "/api/document", asked)
        assert fc.Plan.from_json(json.dumps(document)) == fc.plan(
            n_points=[120, 40, 377], max_faulty=1
        )
        assert post(address, "/api/promises", ASKED)[1].count("<article") == 4
        answer = post(address, "/api/cases?coverage=0.8", {"sites": 5, "points": 20})[1]
        assert answer.startswith("You need at least ")


ENDLESS = {"sites": 10_000, "points": 1_000_000, "numbers": 20, "max_faulty": 4_000}
"""A short question whose answer takes minutes."""


def request(body, path="plan"):
    head = (
        f"POST /api/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type:"
        " application/json\r\n"
    )
    content = json.dumps(body).encode()
    return head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


def connect(url):
    """Connect with patience for a busy machine, beyond which a test has failed."""
    return socket.create_connection(urlsplit(url).netloc.split(":"), timeout=100)


class TestBudget:
    def test_a_question_that_takes_too_long_is_refused_and_the_next_one_answered(self):
        assert len(json.dumps(ENDLESS)) < 98
        with background(create_app(seconds=1)) as url:
            address = urlsplit(url).netloc
            assert post(address, "/api/plan", ENDLESS) == (422, {"error": TOO_MUCH})
            assert post(address, "/api/plan", ASKED)[0] == 200

    @pytest.mark.skipif(
        sys.platform != "linux", reason="memory is limited on Linux alone"
    )
    def test_so_is_one_that_takes_too_much_memory(self, address):
        asked = {
            "sites": 10_000,
            "points": 1_000_000,
            "privacy": {"epsilon": 0.001, "bins": 1000},
        }
        assert post(address, "/api/plan", asked) == (422, {"error": TOO_MUCH})
        assert post(address, "/api/plan", ASKED)[0] == 200

    @pytest.mark.parametrize(
        "path", ["plan", "promises", "cases?coverage=0.8", "document"]
    )
    def test_a_worker_is_killed_when_nobody_waits(self, path):
        """Otherwise all workers would be busy for the thousand seconds that they may
        take.
        """
        endless = (
            ENDLESS if "cases" not in path else {**ENDLESS, "points": 7, "numbers": 5}
        )
        with background(create_app(seconds=1000)) as url:
            for _ in range(3):
                with connect(url) as connection:
                    connection.sendall(request(endless, path))
            assert post(urlsplit(url).netloc, f"/api/{path}", ASKED)[0] == 200

    def test_a_server_that_is_stopped_waits_for_no_answer(self, capfd):
        with background(create_app(seconds=1000)) as url, connect(url) as connection:
            connection.sendall(request(ENDLESS))
            assert post(urlsplit(url).netloc, "/api/plan", ASKED)[0] == 200
        assert "Traceback" not in capfd.readouterr().err


class TestDeadlines:
    """Clients that are slow hold no connection; the deadlines are short here, and no
    test waits for one.
    """

    @pytest.fixture
    def url(self, monkeypatch):
        monkeypatch.setattr(_server, "_PATIENCE", 0.2)
        monkeypatch.setattr(_server.Connection, "patience", 0.2)
        with background() as url:
            yield url

    @pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local"])
    def test_a_head_that_never_ends(self, url, sent):
        with connect(url) as connection:
            connection.sendall(sent)
            assert not read(connection)

    def test_a_second_head_that_never_ends(self, url):
        with connect(url) as connection:
            connection.sendall(
                b"GET /assets/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\nGET"
            )
            assert read(connection).startswith(b"HTTP/1.1 200")

    def test_a_body_that_never_ends(self, url):
        with connect(url) as connection:
            connection.sendall(request(ASKED)[:-1])
            assert read(connection).startswith(b"HTTP/1.1 408")

    def test_an_answer_that_is_never_read(self, url):
        ask_all = b"GET /assets/planner.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10**6
        with connect(url) as connection, pytest.raises(ConnectionError):
            connection.sendall(ask_all)

    def test_connections_are_counted(self, monkeypatch):
        monkeypatch.setattr(_server, "_MOST_CONNECTIONS", 3)
        monkeypatch.setattr(_server.Connection, "patience", 1000)
        with background() as url, ExitStack() as stack:
            held = [stack.enter_context(connect(url)) for _ in range(3)]
            with connect(url) as connection:
                assert not read(connection)
            held.pop().sendall(b"nonsense\r\n\r\n")


def read(connection):
    """Return what is sent until the connection ends, in whatever way."""
    received = b""
    with suppress(ConnectionError):
        while part := connection.recv(65_536):
            received += part
    return received


class TestStrangers:
    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"]
    )
    def test_other_names_are_refused(self, address, host):
        assert ask(address, "GET", "/", headers={"Host": host})[0] == 400

    @pytest.mark.parametrize(
        "host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:80"]
    )
    def test_names_of_this_machine_are_known(self, address, host):
        assert ask(address, "GET", "/", headers={"Host": host})[0] == 200

    def test_a_name_is_no_pattern(self):
        with pytest.raises(
            ValueError, match=r"hosts must be names without \*, got '\*'"
        ):
            create_app(["localhost", "*"])

    def test_no_cross_origin_headers_and_a_strict_policy(self, address):
        for path in (*PATHS, "/nothing", "/api/plan"):
            status, body, headers = ask(address, "GET", path)
            assert status == {"/nothing": 404, "/api/plan": 405}.get(path, 200)
            assert headers["Content-Security-Policy"].startswith(
                "default-src 'none'; script-src 'self'"
            )
            assert "Access-Control-Allow-Origin" not in headers
            if status != 200:
                assert set(json.loads(body)) == {"error"}

    def test_the_page_is_light_and_names_nothing_elsewhere(self, address):
        pages = [ask(address, "GET", path)[1].decode() for path in PATHS]
        assert sum(map(len, pages)) < 100_000
        for text in pages:
            named = text.replace("http://www.w3.org/2000/svg", "")
            assert not any(word in named for word in ("http://", "https://", "url("))


class TestCommand:
    def test_a_port_that_is_taken(self, capsys):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert main(["planner", "--no-browser", "--port", str(port)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(
            f"fedconformal: port {port} of 127.0.0.1: Address already in use"
        )
        assert len(said.splitlines()) == 1

    def test_a_port_that_cannot_be(self):
        for port in (-1, 65_536):  # of which the resolver would make another one
            with pytest.raises(
                ValueError, match=f"port must be between 0 and 65535, got {port}"
            ):
                serve(port=port, browse=False)

    def test_a_host_that_does_not_exist(self, capsys):
        assert main(["planner", "--no-browser", "--host", "no such host"]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 2
        assert said[1].startswith("fedconformal: host 'no such host'")

    @pytest.mark.nightly
    def test_names_can_be_allowed(self):
        with planner("--allow-host", "planner.example") as url:
            assert (
                ask(
                    urlsplit(url).netloc,
                    "GET",
                    "/",
                    headers={"Host": "planner.example"},
                )[0]
                == 200
            )
