"""``fedconformal policy``, and policies, models, rounds and signatures on the command line."""

import json

import fedconformal as fc


def test_a_new_policy_says_the_defaults(desk, run):
    assert "wrote site.toml" in run("policy", "new").err
    assert fc.SitePolicy.read("site.toml") == fc.SitePolicy()
    text = (desk / "site.toml").read_text()
    every_line = [line[2:] for line in text.splitlines() if line.startswith("# ") and " = " in line]
    (desk / "all.toml").write_text("\n".join(every_line).replace('"ed25519:..."', f'"ed25519:{"ab" * 32}"'))
    said = fc.SitePolicy.read("all.toml")
    assert (said.max_numbers, said.private_only, said.scores) == (10, True, ("absolute",))
    for name in ("max_answers", "min_group", "curves", "round_down_to"):
        assert getattr(said, name) == getattr(fc.SitePolicy(), name)


def test_what_holds_is_shown(desk, run):
    (desk / "site.toml").write_text('max_numbers = 3\nscores = ["lac", "aps"]\n')
    held = json.loads(run("policy", "show", "site.toml", "--json").out)
    assert (held["max_numbers"], held["scores"], held["max_answers"]) == (3, ["lac", "aps"], 20)
    assert "lac, aps" in run("policy", "show", "site.toml").out
    (desk / "site.toml").write_text("max = 3")
    assert "site.toml: not a policy: 'max' is none of" in run("policy", "show", "site.toml", code=2).err


def test_a_refusal_names_the_line_that_would_allow_it(desk, run):
    (desk / "site.toml").write_text("max_numbers = 0")
    order = ["report", "plan.json", "A.csv", "--site", "A", "-o", "A.json", "--policy", "site.toml"]
    assert "max_numbers = 1 would allow it" in run(*order, code=2).err
    (desk / "site.toml").write_text("max_numbers = 1")
    run(*order)


def test_from_a_signed_plan_to_a_signed_calibration(desk, run):
    (desk / "model.bin").write_bytes(b"weights")
    (desk / "other.bin").write_bytes(b"other")
    run("keys", "new", "-o", "c.key")
    coordinator = run("keys", "show", "c.key").out.strip()
    wishes = ["--points", "A=40,B=60,C=50", "--term", "model=model.bin", "--term", "round=may", "--term"]
    run("plan", *wishes, "expires=9999-01-01T00:00:00Z", "--sign", "c.key", "-o", "p.json")
    plan = fc.Plan.read("p.json")
    assert (plan.terms.round, plan.signer, plan.is_signed) == ("may", coordinator, True)
    (desk / "site.toml").write_text(f'coordinator = "{coordinator}"\n')
    sent = []
    for site in "ABC":
        order = ["report", "p.json", f"{site}.csv", "--site", site, "--policy", "site.toml"]
        if site == "A":
            assert "another model" in run(*order, "--model", "other.bin", code=2).err
        run(*order, "--model", "model.bin", "-o", f"{site}.json")
        sent.append(f"{site}.json")
    order = ["report", "plan.json", "A.csv", "--site", "A", "--policy", "site.toml"]
    assert "not signed by the coordinator" in run(*order, code=2).err
    run("calibrate", "p.json", *sent, "--sign", "c.key", "-o", "c.json")
    calibration = fc.Calibration.read("c.json")
    assert calibration.is_signed
    assert calibration.signer == coordinator


def test_an_expired_plan(desk, run):
    run("plan", "--points", "A=40,B=60", "--term", "expires=2001-01-01T00:00:00Z", "-o", "p.json")
    assert "expired at 2001" in run("report", "p.json", "A.csv", "--site", "A", code=2).err
    assert "must be a time in UTC" in run("plan", "--term", "expires=2001-99-01T00:00:00Z", code=2).err
