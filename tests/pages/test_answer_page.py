"""The answer page: the bytes of ``fedconformal report``, no connection, and nothing
beyond the policy.
"""

import base64
import hashlib
import http.server
import io
import json
import random
import re
import threading
import tomllib
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pypdf
import pytest
from answering import (
    MODULES,
    Question,
    call,
    command_answer,
    csv,
    functions_page,
    odd_scores,
    page_answers,
    questions,
)
from browsing import browser, resize, serious_problems
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import fedconformal as fc
from fedconformal._tables import read_table
from fedconformal.cli import main
from fedconformal.documents import RankRule, check_site_name
from fedconformal.documents._base import _canonical, _load
from fedconformal.messages import check_plan
from fedconformal.pages._answer import answer_page, join_modules
from fedconformal.pages._render import read_asset
from fedconformal.planning import ranks_of_rule
from fedconformal.protocol import SitePolicy

HERE = Path(__file__).parent
SHARED = json.loads((HERE / "answer_cases.json").read_text())
SCRIPTS = sorted(Path(fc.__file__).parent.glob("pages/assets/answer/*.js"))
MOST_RATIO = (
    30  # of the time for a million rows to that of a plain reading of all cells
)


# -- the file --------------------------------------------------------------------------


def test_the_page_is_one_constant_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["page"]) == 0
    content = Path("answer.html").read_bytes()
    assert main(["page", "--digest"]) == 0
    assert (
        capsys.readouterr().out.strip()
        == f"sha256:{hashlib.sha256(content).hexdigest()}"
    )
    assert main(["page"]) == 2
    assert "answer.html" in capsys.readouterr().err
    assert b"\r" not in content


def test_the_policy_of_the_page_allows_its_own_script_and_style_alone():
    page = answer_page()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[
        1
    ]
    hashes = {}
    for tag in ("script", "style"):
        content = re.findall(
            rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>", page, re.DOTALL
        )
        assert len(content) == 1
        hashes[tag] = base64.b64encode(
            hashlib.sha256(content[0].encode()).digest()
        ).decode()
    assert (
        policy
        == f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src"
        f" 'sha256-{hashes['style']}'; form-action 'none'; base-uri 'none'"
    )
    shown = page.replace("https://json-schema.org/draft/2020-12/schema", "")
    assert not re.search(
        r"https?:|//[a-z]|\bsrc=|\bhref=\"|<form|<iframe|<object|\son[a-z]+=|\sstyle=",
        shown,
    )
    assert not re.search(
        r"innerHTML|insertAdjacent|document\.write|eval\(|Function\(|fetch\(|XMLHttp",
        shown,
    )
    script = join_modules((*MODULES, "page"))
    opens = r"location|window\.|\bopen\(|\.href|\.src|RTC|navigator|\bself\b"
    assert not re.search(opens, script)
    assert script.count("href") == 2  # a file to save, which has no address
    assert "const href = URL.createObjectURL(" in script


def test_scripts_are_short_and_join():
    script = join_modules((*MODULES, "page"))
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    names = re.findall(
        r"^(?:async )?(?:function|class|const|let) (\w+)", script, re.MULTILINE
    )
    assert len(set(names)) == len(names)
    code = re.sub(r"/\*\*.*?\*/", "", script, flags=re.DOTALL).splitlines()
    lines = [
        line for line in code if line.strip() and not line.strip().startswith("//")
    ]
    assert len(lines) <= 700
    assert max(map(len, script.splitlines())) <= 130
    assert all(path.read_text().startswith("// @ts-check\n") for path in SCRIPTS)


def test_the_page_has_the_published_schema():
    published = HERE.parents[1] / "docs" / "schemas" / "plan.schema.json"
    assert read_asset("answer/plan.schema.json") == published.read_text()


# -- cases that Python and the page share ----------------------------------------------


def test_python_agrees_with_the_shared_cases(tmp_path):
    assert [repr(float(text)) for text in SHARED["floats"]] == SHARED["floats"]
    for text, canonical in SHARED["documents"]:
        assert _canonical(_load("plan", text, fc.Plan.limit)).decode() == canonical
    for text in SHARED["not documents"]:
        with pytest.raises(ValueError, match=r"not a plan|this is"):
            _load("plan", text, fc.Plan.limit)
    for case in SHARED["tables"]:
        path = tmp_path / "t.csv"
        path.write_text(case["text"], encoding="utf-8", newline="")
        is_good = case["page"] or case.get("python", False)
        assert (read_numbers(path) is not None) == is_good, case
    for name in SHARED["names"]["good"]:
        assert check_site_name(name) == name
    for name in SHARED["names"]["bad"]:
        with pytest.raises(ValueError, match="name must be visible"):
            check_site_name(name)
    for text in SHARED["policies"]:
        SitePolicy.from_toml(text.encode())
    for text in SHARED["not policies"]:
        with pytest.raises(ValueError, match="not a policy"):
            SitePolicy.from_toml(text.encode())


def read_numbers(path):
    """The numbers of the column x, or of the first one; None if they are refused."""
    try:
        table = read_table(path)
        with warnings.catch_warnings(action="ignore"):
            return table.numbers(["x" if "x" in table.columns else table.columns[0]])[
                :, 0
            ].tolist()
    except ValueError:
        return None


def check_shared_cases(driver, folder):
    floats = call(
        driver,
        "given[0].map((text) => String(new Float(Number(text))))",
        SHARED["floats"],
    )
    assert floats == SHARED["floats"]
    attempt = (
        "(read) => { try { return read() } "
        "catch (error) { return error instanceof Refusal ? null : String(error) } }"
    )
    documents = [text for text, _ in SHARED["documents"]]
    written = call(
        driver,
        "given[0].map((text) => writeJson(readJson(text), 'canonical'))",
        documents,
    )
    assert written == [canonical for _, canonical in SHARED["documents"]]
    digests = call(driver, "Promise.all(given[0].map(sha256))", written)
    assert digests == [hashlib.sha256(text.encode()).hexdigest() for text in written]
    refused = call(
        driver,
        f"given[0].map((text) => ({attempt})(() => readJson(text)))",
        SHARED["not documents"],
    )
    assert refused == [None] * len(refused)
    ranks = call(
        driver,
        "given[0].map(([rule, level, n]) => ranksOfRule(rule, level, n))",
        SHARED["ranks"],
    )
    for (rule, level, n), own in zip(SHARED["ranks"], ranks, strict=True):
        fields = {
            name: Fraction(text) if isinstance(text, str) else text
            for name, text in rule.items()
        }
        assert tuple(own) == ranks_of_rule(RankRule(**fields), Fraction(level), n), (
            rule,
            n,
        )
    numbers = (
        "({ text }) => { const table = new Table(text);const name ="
        " table.names.includes('x') ? 'x' : table.names[0];return"
        " [...table.numbers([name], '')[0]].map((value) => String(new Float(value))) }"
    )
    read = call(
        driver,
        f"given[0].map((each) => ({attempt})(() => ({numbers})(each)))",
        SHARED["tables"],
    )
    for case, values in zip(SHARED["tables"], read, strict=True):
        path = Path(folder, "t.csv")
        path.write_text(case["text"], encoding="utf-8", newline="")
        expected = [
            fc.documents.Sent(ranks=(), values=(value,)).values[0]
            for value in read_numbers(path) or []
        ]
        shown = [
            '"Infinity"' if value == float("inf") else repr(value) for value in expected
        ]
        assert values == (shown if case["page"] else None), case
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        content = list("x;ä\n1,5;é\n".encode(encoding))
        assert call(
            driver, "new Table(decode(new Uint8Array(given[0]))).labels('ä')", content
        ) == ["é"]
    good, bad = (
        call(driver, "given[0].map(isSiteName)", SHARED["names"][kind])
        for kind in ("good", "bad")
    )
    assert all(good)
    assert not any(bad)
    policies = call(
        driver, "given[0].map((text) => ({ ...readPolicy(text) }))", SHARED["policies"]
    )
    assert policies == [tomllib.loads(text) for text in SHARED["policies"]]
    with_secret = 'secret = "0123456789abcdef"\nmin_group = 7\n'
    assert call(driver, "({ ...readPolicy(given[0]) })", with_secret) == {
        "min_group": 7
    }
    refused = call(
        driver,
        f"given[0].map((text) => ({attempt})(() => readPolicy(text)))",
        SHARED["not policies"],
    )
    assert refused == [None] * len(refused)


# -- plans that the page refuses -------------------------------------------------------


def sealed(content):
    """The text of a plan with this content and its own digest, whatever it is."""
    fields = {
        name: value
        for name, value in content.items()
        if name not in ("digest", "signature", "signer")
    }
    return json.dumps(
        {
            **content,
            "digest": f"sha256:{hashlib.sha256(_canonical(fields)).hexdigest()}",
        }
    )


def hostile_plans():
    """Yield texts with a part of the refusal that each must get."""
    plan = fc.plan(
        n_points={"north": 30, "south": 40}, score="absolute", terms={"purpose": "x"}
    )
    content = json.loads(plan.to_json())
    yield "no json", "not JSON"
    yield "[" * 100_000, "not JSON"
    yield '{"a":' * 5_000 + "1" + "}" * 5_000, "not"
    yield "[" + "1," * 800_000 + "1]", "too large"
    yield (
        json.dumps({**content, "digest": "sha256:" + "0" * 64}),
        "does not match its digest",
    )
    yield plan.to_json().replace('"north"', '"n0rth"'), "does not match its digest"
    yield json.dumps({**content, "format": "fedconformal/report"}), "not a plan"
    yield sealed({**content, "more": 1}), "unknown field 'more'"
    yield (
        sealed({**content, "score": {"name": "absolute", "parameters": {"a": 1}}}),
        "unknown field 'a'",
    )
    yield sealed({**content, "version": 2}), "plan.version"
    yield sealed({**content, "version": True}), "plan.version"
    yield sealed({**content, "designs": []}), "plan.designs"
    yield sealed({**content, "designs": {}}), "not a plan"
    yield sealed({**content, "designs": [None]}), "plan.designs.0"
    for bad in (
        "a\nb",
        "a\u202eb",
        "\u200b",
        " a",
        "a" * 501,
        7,
        None,
        ["x"],
        {"a": 1},
        "\ud800",
    ):
        yield (
            (
                sealed({**content, "terms": {"facts": {"purpose": bad}}})
                if bad != "\ud800"
                else json.dumps({**content, "terms": {"facts": {"purpose": bad}}})
            ),
            "purpose",
        )
    for bad in ("2030-02-30T00:00:00Z", "2030-01-01T25:00:00Z", "soon"):
        yield sealed({**content, "terms": {"expires": bad}}), "expir"
    yield (
        sealed({**content, "terms": {"expires": "2020-01-01T00:00:00Z"}}),
        "expired at 2020-01-01T00:00:00Z",
    )
    design = content["designs"][0]
    for ranks in (
        [[32], [38]],
        [[0], [38]],
        [[28.0], [38]],
        [["28"], [38]],
        [[28, 28], [38]],
        [[28]],
        [[-1], [38]],
        [list(range(1, 23)), [38]],
    ):
        changed = {**design, "message": {"kind": "ranks", "levels": [{"ranks": ranks}]}}
        yield sealed({**content, "designs": [changed]}), "not a plan"
    for kind in ("constructor", "__proto__", "bin", "other", 3, None):
        yield (
            sealed({**content, "designs": [{**design, "message": {"kind": kind}}]}),
            "message",
        )
    yield (
        sealed(
            {
                **content,
                "designs": [
                    {**design, "levels": [{"confidence_level": "1.5", "votes": 1}]}
                ],
            }
        ),
        "not",
    )
    yield (
        fc.plan(5, 500, privacy=fc.Privacy(10.0, fc.Bins.uniform(0, 1, 50))).to_json(),
        "--ledger LEDGER",
    )
    yield (
        fc.plan(
            5,
            200,
            privacy=fc.Privacy(10.0, fc.Bins.uniform(0, 1, 50), analysis="paper"),
        ).to_json(),
        "--ledger",
    )
    yield (
        fc.plan(
            n_points={"A": 30}, keys={"A": fc.SigningKey.new().public_key}
        ).to_json(),
        "--sign-with NAME.key",
    )
    yield (
        fc.plan(10, 30, promise="new-site").to_json(),
        "random cases: use fedconformal report",
    )
    yield (
        fc.plan(5, 50, curve=fc.Bins.uniform(0, 1, 9), parts=10).to_json(),
        "the page sums up no losses",
    )
    answers = {
        "criterion": "conditional",
        "curve": fc.Bins.uniform(0, 1, 9),
        "starts": 3,
    }
    yield fc.plan(5, 500, **answers).to_json(), "the page sums up no losses"
    yield (
        fc.plan(promise="new-site", criterion="conditional", n_sites=30).to_json(),
        "ranks of this plan: use",
    )
    yield (
        sealed({**content, "score": {"name": "missed-labels"}}),
        "score of this plan: use fedconformal report",
    )
    for score in ("aps", "raps"):
        yield (
            fc.plan(10, 30, score=score).to_json(),
            "score of this plan: use fedconformal report",
        )


def check_hostile_plans(driver):
    pairs = list(hostile_plans())
    script = (
        "Promise.all(JSON.parse(given[0]).map((text) => readPlan(text, schema).then(()"
        " => 'accepted',(error) => (error instanceof Refusal ? '' : 'unexpected: ') +"
        " error.message)))"
    )
    for (text, reason), said in zip(
        pairs,
        call(driver, script, json.dumps([text for text, _ in pairs])),
        strict=True,
    ):
        assert reason in said, (text[:300], reason, said)
        assert not said.startswith("unexpected"), (text[:300], said)


# -- a real browser --------------------------------------------------------------------


@pytest.fixture(scope="module")
def watched(browser_paths):
    with browser(browser_paths, logs=("browser", "performance")) as driver:
        yield driver


@pytest.fixture
def page(watched, tmp_path):
    path = tmp_path / "answer.html"
    path.write_text(answer_page(), encoding="utf-8")
    resize(watched, 1280, 900)
    watched.get(path.as_uri())
    return watched


@pytest.fixture
def functions(watched, tmp_path):
    watched.get(functions_page(tmp_path))
    return watched


def until(driver, condition):
    WebDriverWait(driver, 600, poll_frequency=0.05).until(lambda _: condition())


def text(driver, name):
    return driver.find_element(By.ID, name).text


def choose_file(driver, kind, path, content):
    path.write_text(content, encoding="utf-8", newline="")
    driver.find_element(By.ID, f"{kind}-file").send_keys(str(path))


@pytest.mark.slow
def test_a_corrected_file_of_the_same_name_is_taken_again(page, tmp_path):
    """Browsers tell of no second choice of the same file, unless the first is forgotten
    before.
    """
    choose_file(page, "policy", tmp_path / "policy.toml", "max_numbers = 3")
    chosen = (
        "const field = document.getElementById('policy-file'); return"
        " field.files.length"
    )
    assert page.execute_script(chosen) == 1
    stop = "addEventListener('click', (event) => event.preventDefault(), true);"
    page.execute_script(stop + "document.getElementById('policy-file').click()")
    assert page.execute_script(chosen) == 0


def paste(driver, content):
    driver.execute_script(
        "const data = new DataTransfer(); data.setData('text/plain',"
        " arguments[0]);document.getElementById('paste').dispatchEvent(new"
        " ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable:"
        " true }))",
        content,
    )


def saved(driver, name):
    driver.find_element(By.ID, "save").click()
    path = driver.downloads / name
    until(driver, path.exists)
    content = path.read_bytes()
    path.unlink()
    return content


def requested(driver):
    """Addresses that the browser asked for since the last look."""
    entries = [
        json.loads(entry["message"])["message"]
        for entry in driver.get_log("performance")
    ]
    named = (
        entry["params"]
        for entry in entries
        if entry["method"] == "Network.requestWillBeSent"
    )
    return [params["request"]["url"] for params in named]


STORY = {
    "purpose": "Length of stay after hip surgery",
    "unit": "days",
    "coordinator": "Dr. Ana Ruiz",
    "expires": "2999-01-31T12:00:00Z",
}


@pytest.mark.slow
def test_no_column_is_chosen_for_a_person_where_it_is_not_clear(page, tmp_path):
    """An identifier is no score, and names that differ in spaces alone are two
    columns.
    """
    plan = fc.plan(n_points={"north": 20, "south": 20}, score="absolute")
    choose_file(page, "plan", tmp_path / "plan.json", plan.to_json())
    page.find_element(By.ID, "site").send_keys("north")
    rows = "".join(f"{7004210 + 7 * i},{i},{i + 1},{i + 100}\n" for i in range(20))
    paste(page, 'patient,outcome,model A,"model  A"\n' + rows)
    until(page, lambda: "choose the columns" in text(page, "cases-refusal"))
    assert not page.find_element(By.ID, "save").is_displayed()
    for place, name in enumerate(["outcome", "model  A"]):
        Select(page.find_element(By.ID, f"column-{place}")).select_by_value(name)
    until(page, lambda: page.find_element(By.ID, "save").is_displayed())
    assert "100.0" in text(page, "numbers")


@pytest.mark.slow
def test_a_site_that_is_not_asked_and_a_name_with_slips(page, tmp_path, capsys):
    plan = fc.plan(n_points={"north": 8, "Málaga": 40}, confidence_level=0.5)
    choose_file(page, "plan", tmp_path / "plan.json", plan.to_json())
    until(page, lambda: page.find_element(By.ID, "site").is_displayed())
    page.find_element(By.ID, "site").send_keys("north")
    assert (
        text(page, "asks")
        == "Nothing: no answer of your site could change the threshold."
    )
    page.find_element(By.ID, "site").clear()
    page.find_element(By.ID, "site").send_keys(" Ma\u0301laga ")
    table = "sep=;\n" + csv({"score": np.arange(40) / 4}, ";", ",")
    choose_file(page, "cases", tmp_path / "cases.csv", table)
    until(page, lambda: page.find_element(By.ID, "save").is_displayed())
    expected, _ = command_answer(Question(plan, table, "Málaga"), tmp_path, capsys)
    assert saved(page, "Málaga.json") == expected.encode()
    choose_file(page, "cases", tmp_path / "other.csv", table.replace("9,5", "x"))
    until(page, lambda: "line 41 ('x')" in text(page, "cases-refusal"))


def test_a_site_answers_in_its_browser(page, tmp_path, capsys):
    requested(page)
    rng = np.random.default_rng(3)
    truth, predicted = rng.normal(8, 3, size=(2, 120)).round(2).tolist()
    plan = fc.plan(
        n_points={"Würzburg": 120, "south": 40},
        numbers=2,
        score="absolute",
        terms=STORY,
    )
    choose_file(page, "plan", tmp_path / "plan.json", plan.to_json())
    until(page, lambda: text(page, "who") == "Dr. Ana Ruiz")
    assert text(page, "what") == "Length of stay after hip surgery"
    assert text(page, "until") == "2999-01-31, 12:00:00 UTC"
    assert "depends on the name" in text(page, "asks")
    page.find_element(By.ID, "site").send_keys("Würzburg")
    assert "2 of your 120 scores (the " in text(page, "asks")
    table = csv({"stay": truth, "predicted": predicted}, "\t", ",", "\r\n")
    paste(page, table.replace("stay", "").replace("\r\n8", "\r\nabc", 1))
    paste(page, table)
    until(page, lambda: page.find_element(By.ID, "save").is_displayed())
    assert text(page, "save") == "Save Würzburg.json"
    assert "120 rows read, none refused" in text(page, "rows")
    question = Question(plan, table, "Würzburg", "stay", ("predicted",), suffix=".tsv")
    expected, sentence = command_answer(question, tmp_path, capsys)
    assert text(page, "sentence") == sentence
    numbers = [
        cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#numbers td.number")
    ]
    values = fc.Report.from_json(expected).payload.levels[0].values
    assert numbers == ["120", *map(repr, values)]
    assert f"the model was off by {values[0]:.4g} days" in text(page, "numbers")
    assert saved(page, "Würzburg.json") == expected.encode()
    assert {url.partition(":")[0] for url in requested(page)} <= {"file", "blob"}
    assert [line["message"] for line in page.get_log("browser")] == []
    fields = "[...document.querySelectorAll('input, select, textarea')]"
    assert page.execute_script(
        f"return {fields}.every((each) => each.labels.length === 1)"
    )
    check_silence(page)


def check_silence(page):
    """Try to send from inside the page in every way that its policy forbids: nothing
    arrives.
    """
    received = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            received.append(self.path)
            self.send_response(204)
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        tries = """
          const [address, done] = arguments;
          const make = (tag, fields) =>
            Object.assign(document.createElement(tag), fields);
          const add = (tag, fields) => document.body.append(make(tag, fields));
          fetch(address + '/fetch', { mode: 'no-cors' }).catch(() => {});
          try { navigator.sendBeacon(address + '/beacon', 'x') } catch {}
          try { new WebSocket(address.replace('http', 'ws') + '/socket') } catch {}
          try { new EventSource(address + '/events') } catch {}
          try { new Worker(address + '/worker') } catch {}
          add('img', { src: address + '/image' });
          add('script', { src: address + '/script' });
          add('script', { textContent: `document.title = 'inline script ran'` });
          add('iframe', { src: address + '/frame' });
          add('object', { data: address + '/object' });
          add('link', { rel: 'stylesheet', href: address + '/style' });
          add('link', { rel: 'prefetch', href: address + '/prefetch' });
          add('base', { href: address + '/base/' });
          add('form', { action: address + '/form', method: 'post', id: 'trial' });
          document.getElementById('trial').submit();
          setTimeout(done, 700);
        """
        page.execute_async_script(tries, address)
        assert "inline" not in page.title
        assert received == []
        # What no policy forbids, and the page says so: to open another address.
        page.execute_script("location.href = arguments[0] + '/left'", address)
        WebDriverWait(page, 30).until(lambda _: received == ["/left"])
        received.clear()
        page.execute_cdp_cmd(
            "Page.setBypassCSP", {"enabled": True}
        )  # the listener would hear it
        page.refresh()
        page.execute_async_script(
            "const [url, done] = arguments; fetch(url + '/heard', { mode: 'no-cors'"
            " }).then(done, done)",
            address,
        )
        assert received == ["/heard"]
    finally:
        page.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_functions_agree_with_python(functions, tmp_path):
    check_shared_cases(functions, tmp_path)
    check_hostile_plans(functions)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_reports_are_those_of_the_command(functions, tmp_path, capsys):
    """Every kind of plan that the page answers, and every way to write a table."""
    asked = list(questions(np.random.default_rng(1)))
    answered = 0
    for question, answer in zip(asked, page_answers(functions, asked), strict=True):
        expected, said = command_answer(question, tmp_path, capsys)
        if expected is None:
            assert answer["known"], (question.label, answer)
            assert answer["refused"] in said, question.label
            continue
        answered += 1
        assert answer.get("text") == expected, (question.label, answer)
        assert answer["sentence"] == said, question.label
    assert answered > 80


def refused_questions(rng):
    """Yield questions that both refuse, with a part of the sentence that both give."""
    sizes = {"north": 30, "south": 40}
    table = csv({"score": odd_scores(30, rng), "g": ["a"] * 26 + ["b"] * 4})
    plan, grouped = fc.plan(n_points=sizes), fc.plan(groups={"a": None, "b": None})
    yield (
        Question(plan, csv({"score": odd_scores(29, rng)})),
        "the plan expects 30 scores from site 'north', got 29",
    )
    yield (
        Question(plan, table, "West"),
        "site must be one of the plan's, 'north', 'south', got 'West'",
    )
    yield (
        Question(fc.plan(3, 20), table),
        "the plan expects sites with 20 scores, got 30",
    )
    yield (
        Question(fc.plan(numbers=20), table),
        "20 of your 30 scores would leave, and the site's policy allows 10",
    )
    yield (
        Question(plan, table, policy="max_numbers = 0"),
        "1 of your 30 scores would leave",
    )
    yield (
        Question(plan, table, policy="private_only = true"),
        "says private_only = true: nothing leaves",
    )
    yield (
        Question(plan, table, policy='scores = ["absolute"]'),
        "the site's policy allows 'absolute' alone",
    )
    yield (
        Question(plan, table, policy='promises = ["mixture"]'),
        "the site's policy allows 'mixture' alone",
    )
    yield (
        Question(plan, table, policy='messages = ["curve"]'),
        "the site's policy allows 'curve' alone",
    )
    curve = fc.plan(n_points=sizes, curve=fc.Bins.uniform(0, 1, 5))
    yield Question(curve, table), "exact counts of all scores"
    yield (
        Question(
            grouped,
            csv({"score": odd_scores(30, rng), "g": ["a"] * 29 + ["c"]}),
            group="g",
        ),
        "'c' in 1 of 30 rows",
    )
    yield (
        Question(grouped, table, group="g", policy="min_group = 27"),
        "fewer than 27 cases of every group",
    )
    yield (
        Question(fc.plan(n_points=sizes, group_by="site"), table, "x"),
        "site must be one of the plan's",
    )
    yield Question(plan, table.replace("inf", "-inf")), "-Infinity"
    yield Question(plan, table, site="a\u200bb"), "name must be visible"


@pytest.mark.nightly
def test_what_the_command_refuses_the_page_refuses(functions, tmp_path, capsys):
    pairs = list(refused_questions(np.random.default_rng(2)))
    for (question, reason), answer in zip(
        pairs, page_answers(functions, [q for q, _ in pairs]), strict=True
    ):
        expected, said = command_answer(question, tmp_path, capsys)
        assert expected is None
        assert answer.get("known"), answer
        assert reason in said.replace("--site", "site"), said
        assert reason in answer["refused"]


def mutate(value, rng):
    """Change one place of a document at random."""
    odd = [
        None,
        True,
        0,
        -1,
        1,
        2,
        3,
        28,
        31,
        10**12,
        0.5,
        1e308,
        "",
        "x",
        "0.9",
        "1/3",
        "Infinity",
        [],
        {},
        [[]],
        "north",
    ]
    places = []

    def visit(each):
        items = (
            each.items()
            if isinstance(each, dict)
            else enumerate(each)
            if isinstance(each, list)
            else ()
        )
        for key, inner in items:
            places.append((each, key))
            visit(inner)

    visit(value)
    container, key = rng.choice(places)
    action = rng.randrange(4)
    if action == 0:
        del container[key]
    elif action == 1 and isinstance(container, list):
        container.append(container[key])
    elif action == 2 and isinstance(container, dict):
        container[
            rng.choice(
                [
                    "names",
                    "epsilon",
                    "rule",
                    "ranks",
                    "group",
                    "asked",
                    "extra",
                    "keys",
                    "offsets",
                ]
            )
        ] = rng.choice(odd)
    else:
        container[key] = rng.choice(odd)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_changed_plans_disclose_no_more(functions, tmp_path, capsys):
    """Change 2,000 plans at random: the page refuses, sends what the command does, or
    Python refuses them.

    Even then no more scores leave than the policy allows.
    """
    rng, data = random.Random(7), np.random.default_rng(7)
    table = csv({"score": odd_scores(30, data), "g": ["a"] * 20 + ["b"] * 10})
    sizes = {"north": 30, "south": 40}
    plans = [
        (fc.plan(n_points=sizes, numbers=2, confidence_level=[0.5, 0.8]), None),
        (fc.plan(numbers=3), None),
        (fc.plan(n_points=sizes, curve=fc.Bins.uniform(0, 1, 5)), None),
        (
            fc.plan(
                groups={"a": {"north": 20}, "b": {"north": 10, "south": 40}},
                group_by=("site", "label"),
            ),
            "g",
        ),
        (
            fc.plan(
                groups={"a": None, "b": None},
                terms={"purpose": "x", "expires": "2999-01-01T00:00:00Z"},
            ),
            "g",
        ),
    ]
    asked = []
    for _ in range(2000):
        plan, group = rng.choice(plans)
        content = json.loads(plan.to_json())
        for _ in range(rng.choice([1, 1, 2])):
            mutate(content, rng)
        question = Question(
            plan, table, group=group, policy='curves = "plain"'
        ).for_page()
        asked.append(question | {"plan": sealed(content)})
    answers = call(functions, "answerAll(JSON.parse(given[0]))", json.dumps(asked))
    scores = set(map(float, [line.split(",")[0] for line in table.splitlines()[1:]]))
    outcomes = dict.fromkeys(["refused", "same", "refused by Python"], 0)
    for question, answer in zip(asked, answers, strict=True):
        if "text" not in answer:
            outcomes["refused"] += 1
            continue
        report = fc.Report.from_json(answer["text"])
        payloads = [part.payload for part in report.parts]
        sent = {
            value
            for each in payloads
            for level in getattr(each, "levels", ())
            for value in level.values
        }
        assert len(sent - {float("inf")}) <= 10
        assert sent <= scores | {float("inf")}
        try:
            plan = fc.Plan.from_json(question["plan"])
            check_plan(plan)
        except ValueError:
            outcomes["refused by Python"] += 1
            continue
        own = Question(plan, table, group=question["group"], policy='curves = "plain"')
        assert command_answer(own, tmp_path, capsys)[0] == answer["text"]
        outcomes["same"] += 1
    assert min(outcomes.values()) > 20, outcomes
    print(outcomes)


@pytest.mark.nightly
def test_floats_are_written_as_python_writes_them(functions):
    bits = np.random.default_rng(4).integers(0, 2**63, size=50_000, dtype=np.uint64)
    values = [float(value) for value in bits.view(np.float64) if np.isfinite(value)]
    values += [
        m * 10.0**e for e in range(-30, 30) for m in (1.0, 9.999999999999999, 1.5, 0.1)
    ]
    written = call(
        functions, "given[0].map((value) => String(new Float(value)))", values
    )
    assert written == [repr(value) for value in values]


@pytest.mark.nightly
def test_a_million_rows(page, tmp_path, capsys):
    """A million cases: the same bytes, in at most so many times as a plain reading of
    all cells takes.
    """
    rng = np.random.default_rng(5)
    truth, predicted = rng.normal(size=(2, 10**6))
    table = "truth,predicted\n" + "".join(
        f"{a!r},{b!r}\n"
        for a, b in zip(truth.tolist(), predicted.tolist(), strict=True)
    )
    plan = fc.plan(n_points={"north": 10**6, "south": 40}, numbers=3, score="absolute")
    choose_file(page, "plan", tmp_path / "plan.json", plan.to_json())
    page.find_element(By.ID, "site").send_keys("north")
    page.execute_script(
        "window.seconds = null; const started = () => (window.start ="
        " performance.now());"
        "document.getElementById('cases-file').addEventListener('change',"
        " started, true);new MutationObserver(() => { if"
        " (!document.getElementById('leaves').hidden && window.start) window.seconds"
        " ??= (performance.now() - window.start) / 1000"
        " }).observe(document.getElementById('leaves'), { attributes: true })"
    )
    choose_file(page, "cases", tmp_path / "cases.csv", table)
    until(page, lambda: page.execute_script("return window.seconds"))
    seconds = page.execute_script("return window.seconds")
    expected, _ = command_answer(
        Question(plan, table, target="truth", prediction=("predicted",)),
        tmp_path,
        capsys,
    )
    assert (
        page.execute_script("return document.getElementById('file').textContent")
        == expected
    )
    plain = page.execute_async_script(
        "const done = arguments[0];"
        " document.getElementById('cases-file').files[0].text().then((text) => {const"
        " start = performance.now(); let sum = 0;for (const line of text.split('\\n'))"
        " for (const cell of line.split(',')) sum += Number(cell) ||"
        " 0;done((performance.now() - start) / 1000) })"
    )
    print(f"{seconds:.2f} s, {seconds / plain:.1f} times a plain reading")
    assert seconds < MOST_RATIO * plain


@pytest.mark.nightly
def test_groups_classes_and_a_policy_in_the_page(page, tmp_path, capsys):
    rng = np.random.default_rng(6)
    probabilities = rng.dirichlet([1, 2], size=60)
    columns = {
        "truth": [("sick", "well")[i] for i in rng.integers(2, size=60)],
        "id": [str(i) for i in range(60)],
    }
    columns |= {
        "p_well": probabilities[:, 0].tolist(),
        "p_sick": probabilities[:, 1].tolist(),
    }
    plan = fc.plan(
        groups={"sick": None, "well": None},
        group_by="class",
        score="lac",
        terms={"classes": ["well", "sick"]},
    )
    table = csv(columns, ";", ",")
    drop = (
        "const data = new DataTransfer();for (const [name, text] of arguments[0])"
        " data.items.add(new File([text], name));const options = { dataTransfer: data,"
        " bubbles: true, cancelable: true };document.body.dispatchEvent(new"
        " DragEvent('drop', options))"
    )
    page.execute_script(drop, [["plan.json", plan.to_json()], ["data.csv", table]])
    until(page, lambda: page.find_element(By.ID, "columns").is_displayed())
    page.find_element(By.ID, "site").send_keys("a/b: c")
    until(page, lambda: page.find_element(By.ID, "save").is_displayed())
    checked = [
        box.get_attribute("value")
        for box in page.find_elements(By.CSS_SELECTOR, "#chosen input:checked")
    ]
    assert checked == ["p_well", "p_sick"]
    question = Question(plan, table, "a/b: c", "truth", ("p_well", "p_sick"), "truth")
    assert (
        saved(page, "a_b_ c.json")
        == command_answer(question, tmp_path, capsys)[0].encode()
    )
    page.execute_script(drop, [["site.toml", "max_numbers = 1"]])
    until(
        page, lambda: "max_numbers = 2 would allow it" in text(page, "answer-refusal")
    )
    assert not page.find_element(By.ID, "save").is_displayed()
    page.execute_script(drop, [["site.toml", 'coordinator = "ed25519:00"']])
    until(
        page,
        lambda: (
            "--policy site.toml"
            in page.find_element(By.ID, "policy-refusal").get_attribute("textContent")
        ),
    )
    until(page, lambda: "so nothing leaves" in text(page, "answer-refusal"))
    page.execute_script(drop, [["site.toml", ""]])
    until(page, lambda: page.find_element(By.ID, "save").is_displayed())
    page.execute_script(drop, [["data.csv", table.replace("0,", "zero,", 1)]])
    until(
        page,
        lambda: (
            "decimal commas; refused: 1 of 60 rows, line "
            in text(page, "cases-refusal")
        ),
    )
    assert not page.find_element(By.ID, "save").is_displayed()
    page.execute_script(drop, [["data.xlsx", "PK\x03\x04 and so on"]])
    until(page, lambda: "this is a workbook" in text(page, "cases-refusal"))
    assert not page.find_element(By.ID, "save").is_displayed()
    scores = csv({"score": odd_scores(60, rng), "truth": columns["truth"]})
    page.execute_script(drop, [["data.csv", scores]])
    Select(page.find_element(By.ID, "given")).select_by_value("scores")
    until(page, lambda: page.find_element(By.ID, "save").is_displayed())
    question = Question(plan, scores, "a/b: c", group="truth")
    assert (
        saved(page, "a_b_ c.json")
        == command_answer(question, tmp_path, capsys)[0].encode()
    )
    page.execute_script(drop, [["plan.json", plan.to_json().replace("lac", "aps")]])
    until(
        page, lambda: "use fedconformal report plan.json" in text(page, "plan-refusal")
    )
    assert not page.find_element(By.ID, "save").is_displayed()


@pytest.mark.nightly
def test_keyboard_screen_reader_phone_dark_and_print(page, tmp_path, axe):
    plan = fc.plan(
        n_points={"north": 30, "south": 40}, numbers=2, score="absolute", terms=STORY
    )
    table = csv(
        {"truth": odd_scores(30, np.random.default_rng(8)), "predicted": [1.5] * 30}
    )
    for step in ("empty", "refused", "answered"):
        if step != "empty":
            choose_file(
                page,
                "plan",
                tmp_path / f"{step}.json",
                plan.to_json() if step == "answered" else "{}",
            )
            until(page, lambda: text(page, "plan-refusal") or text(page, "who"))
        if step == "answered":
            page.find_element(By.ID, "site").send_keys("north")
            choose_file(page, "cases", tmp_path / "cases.csv", table)
            until(page, lambda: page.find_element(By.ID, "save").is_displayed())
        for scheme in ("light", "dark"):
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
            for width in (1280, 390, 320):
                resize(page, width, 900)
                assert (
                    page.execute_script("return document.documentElement.scrollWidth")
                    <= width
                ), (
                    step,
                    width,
                )
            resize(page, 390, 900)
            assert serious_problems(page, axe) == [], (step, scheme)
    resize(page, 1280, 900)
    page.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.find_element(By.TAG_NAME, "h1").click()
    order = []
    for _ in range(14):
        ActionChains(page).send_keys(Keys.TAB).perform()
        order.append(
            page.switch_to.active_element.get_attribute("id")
            or page.switch_to.active_element.tag_name
        )
        if order[-1] == "save":
            break
    assert order == [
        "plan-file",
        "site",
        "summary",
        "paste",
        "cases-file",
        "given",
        "column-0",
        "column-1",
        "decimal",
        "div",
        "file",
        "save",
    ]
    page.switch_to.active_element.send_keys(Keys.ENTER)
    until(page, (page.downloads / "north.json").exists)
    printed = page.execute_cdp_cmd(
        "Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69}
    )["data"]
    content = " ".join(
        each.extract_text()
        for each in pypdf.PdfReader(io.BytesIO(base64.b64decode(printed))).pages
    )
    shown = " ".join(content.split())
    assert all(
        words in shown
        for words in (
            "Dr. Ana Ruiz",
            "What leaves",
            "other scores of yours",
            "fedconformal/report",
        )
    )
    assert "Choose File" not in shown
