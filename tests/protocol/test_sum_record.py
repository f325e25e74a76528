"""What a site has added up before decides what it adds up now."""

import hashlib
import shutil
from typing import ClassVar

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.protocol._masking import add_up, mask_salt
from fedconformal.protocol._sum_record import SumRecord, read_identifiers

NAMES = ("north", "south", "west", "east")
KEYS = {name: fc.SigningKey.new() for name in (*NAMES, "fifth")}
PUBLIC = {name: KEYS[name].public_key for name in NAMES}
GRID = fc.Bins.uniform(0, 1, 20)
MODEL, OTHER_MODEL = (f"sha256:{64 * digit}" for digit in "ab")
N = 60
SCORES = np.random.default_rng(0).random(N)
IDENTIFIERS = [f"patient {i}" for i in range(N)]


def make_plan(public=PUBLIC, *, model=MODEL, sizes=None, **options):
    sizes = dict.fromkeys(public, N) if sizes is None else sizes
    usual = {
        "n_points": sizes,
        "keys": public,
        "masked": True,
        "curve": GRID,
        "terms": {"model": model},
    }
    return fc.plan(**{**usual, **options})


@pytest.fixture
def policy(tmp_path):
    """The policy of north, which knows all others and a fifth site."""
    known = [key.public_key for name, key in KEYS.items() if name != "north"]
    return fc.SitePolicy(sum_with=known, min_sum_with=1, sum_record=tmp_path / "sums")


@pytest.fixture
def answer(policy):
    def answer_of_north(
        plan, scores=SCORES, *, key=KEYS["north"], site="north", own=policy, **options
    ):
        model = options.pop("model", plan.terms.model)
        return fc.report(
            plan, scores, site=site, key=key, policy=own, model=model, **options
        )

    return answer_of_north


def with_dataset(policy, name):
    return fc.SitePolicy(
        sum_with=policy.sum_with,
        min_sum_with=1,
        sum_record=policy.sum_record,
        sum_dataset=name,
    )


class TestSites:
    five: ClassVar = {**PUBLIC, "fifth": KEYS["fifth"].public_key}
    three: ClassVar = {name: PUBLIC[name] for name in NAMES[:3]}
    exchanged: ClassVar = {**PUBLIC, "east": KEYS["fifth"].public_key}

    @pytest.mark.parametrize(
        "public", [five, three, exchanged], ids=["five", "three", "exchanged"]
    )
    def test_no_exact_sum_of_the_same_cases_over_other_sites(self, answer, public):
        answer(make_plan())
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(make_plan(public))
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(make_plan(public, model=OTHER_MODEL), SCORES * (1 + 1e-12))

    def test_nor_under_a_new_key_and_name(self, answer):
        answer(make_plan())
        new = fc.SigningKey.new()
        public = {
            "nord": new.public_key,
            "south": PUBLIC["south"],
            "west": PUBLIC["west"],
        }
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(make_plan(public), key=new, site="nord")

    def test_the_policy_may_declare_other_cases(self, answer, policy):
        answer(make_plan())
        declared = with_dataset(policy, "patients of 2027")
        assert answer(
            make_plan(self.three), np.random.default_rng(1).random(N), own=declared
        )
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(make_plan(self.five), own=declared)

    def test_the_key_of_the_site_is_one_of_the_sites(self, answer):
        """Else the others see other sites, and new cases of theirs stand beside the
        same ones of this site.
        """
        answer(make_plan())
        new = fc.SigningKey.new()
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(make_plan({**PUBLIC, "north": new.public_key}), key=new)

    def test_sites_that_name_different_data_sets_have_no_sum(self, tmp_path):
        plan, payloads = make_plan(), []
        for name in NAMES:
            known = [PUBLIC[each] for each in NAMES if each != name]
            dataset = "2026" if name == "north" else "2027"
            own = fc.SitePolicy(
                sum_with=known, sum_record=tmp_path / name, sum_dataset=dataset
            )
            report = fc.report(
                plan, SCORES, site=name, key=KEYS[name], policy=own, model=MODEL
            )
            payloads.append(report.payload)
        assert (
            np.abs(np.array(add_up(payloads))).min() > 2**30
        )  # each below it with chance 2^-33

    def test_identifiers_show_that_no_case_is_in_common(self, answer):
        answer(make_plan(), identifiers=IDENTIFIERS)
        others = [f"later {i}" for i in range(N)]
        assert answer(make_plan(self.three), SCORES * (1 + 1e-12), identifiers=others)
        one_again = [*others[1:], IDENTIFIERS[7]]
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(make_plan(self.five), SCORES * (1 + 1e-12), identifiers=one_again)

    def test_identifiers_overrule_what_the_policy_declares(self, answer, policy):
        answer(make_plan(), identifiers=IDENTIFIERS)
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(
                make_plan(self.three),
                identifiers=IDENTIFIERS,
                own=with_dataset(policy, "others"),
            )

    def test_with_noise_any_sites(self, answer, tmp_path):
        ledger = fc.Ledger.create(tmp_path / "ledger")
        ledger.set_budget("cases", 10)
        answer(make_plan())
        private = make_plan(self.three, curve=None, privacy=fc.Privacy(1.0, GRID))
        assert answer(private, ledger=ledger, dataset="cases")


class TestCases:
    @pytest.mark.parametrize("change", ["one more", "one other", "all others"])
    def test_no_second_exact_sum_of_changed_cases(self, answer, change):
        """The difference of two sums would be that of one site, where nothing changed
        at the others.
        """
        plans = [
            make_plan(n_sites=list(NAMES), sizes=None, n_points=None) for _ in range(2)
        ]
        scores = {
            "one more": np.append(SCORES, 0.5),
            "one other": np.append(SCORES[1:], 0.5),
            "all others": np.random.default_rng(1).random(N),
        }
        answer(plans[0])
        with pytest.raises(
            fc.PolicyError, match=r"of other cases was answered before.*identifiers"
        ):
            answer(plans[1], scores[change])
        assert answer(plans[1], SCORES[::-1])

    def test_a_perturbed_model_makes_no_case_new(self, answer):
        """Scores times 1 + 1e-12 share none with those before; one case of them is
        another one.
        """
        answer(make_plan())
        changed = np.append(SCORES[1:], 0.5) * (1 + 1e-12)
        with pytest.raises(
            fc.PolicyError, match="nothing shows whether these are the same cases"
        ):
            answer(make_plan(model=OTHER_MODEL), changed)

    def test_new_cases_are_another_data_set_at_all_sites(self, answer, policy):
        """Identifiers alone do not do: new cases here and the same ones elsewhere would
        be taken apart.
        """
        answer(make_plan(), identifiers=IDENTIFIERS)
        later = [f"later {i}" for i in range(N)]
        scores = np.random.default_rng(1).random(N)
        with pytest.raises(fc.PolicyError, match="of other cases"):
            answer(make_plan(), scores, identifiers=later)
        assert answer(
            make_plan(), scores, identifiers=later, own=with_dataset(policy, "2027")
        )

    def test_identifiers_show_the_same_cases_under_another_model(self, answer):
        answer(make_plan(), identifiers=IDENTIFIERS)
        assert answer(make_plan(model=OTHER_MODEL), SCORES**2, identifiers=IDENTIFIERS)

    @pytest.mark.parametrize("n_replaced", [1, 3, 30])
    def test_replaced_cases_are_changed_cases_however_many(self, answer, n_replaced):
        answer(make_plan(), identifiers=IDENTIFIERS)
        replaced = [f"new {i}" for i in range(n_replaced)] + IDENTIFIERS[n_replaced:]
        with pytest.raises(fc.PolicyError, match="of other cases was answered before"):
            answer(make_plan(model=OTHER_MODEL), SCORES**2, identifiers=replaced)

    def test_a_corrected_case_is_a_change(self, answer):
        answer(make_plan(), identifiers=IDENTIFIERS)
        with pytest.raises(fc.PolicyError, match="of other cases"):
            answer(make_plan(), np.append(SCORES[1:], 0.5), identifiers=IDENTIFIERS)

    @pytest.mark.parametrize(
        "identifiers", [None, IDENTIFIERS], ids=["scores", "identifiers"]
    )
    def test_a_case_that_moves_to_another_group_is_a_change(self, answer, identifiers):
        labels = np.repeat(["a", "b"], N // 2)
        groups = {label: dict.fromkeys(NAMES, N // 2) for label in "ab"}
        first, second = (make_plan(n_points=None, groups=groups) for _ in range(2))
        answer(first, groups=labels, identifiers=identifiers)
        with pytest.raises(fc.PolicyError, match="of other cases"):
            answer(second, groups=labels[::-1], identifiers=identifiers)
        assert answer(make_plan(), identifiers=identifiers)

    @pytest.mark.parametrize(
        ("identifiers", "reason"),
        [
            (IDENTIFIERS[1:], "one for each of the 60 cases, got 59"),
            ([*IDENTIFIERS[1:], IDENTIFIERS[1]], "the one of row 59 twice"),
            ([*IDENTIFIERS[1:], " "], "an empty one in row 59"),
            ([*range(59), 1.5], "text or a whole number"),
        ],
    )
    def test_identifiers_tell_all_cases_apart(self, answer, identifiers, reason):
        with pytest.raises((ValueError, TypeError), match=reason):
            answer(make_plan(), identifiers=identifiers)

    def test_numbers_are_identifiers_too(self):
        assert read_identifiers(np.arange(3), 3).tolist() == ["0", "1", "2"]


class TestFile:
    def test_the_same_answer_whatever_the_data(self, answer):
        plan = make_plan()
        assert answer(plan).to_json() == answer(plan, np.zeros(N)).to_json()

    def test_what_the_server_sent_is_part_of_the_question(self, answer):
        """With other data from the server the masks are others, and so is the
        answer.
        """
        plan = make_plan()
        plain = answer(plan)
        received = answer(plan, received=f"sha256:{64 * 'c'}")
        assert plain.payload != received.payload

    def test_an_older_copy_is_refused(self, answer, policy, tmp_path):
        """Two answers under one question would reveal their difference."""
        plan = make_plan()
        answer(make_plan(model=OTHER_MODEL))
        copy = shutil.copy(policy.sum_record, tmp_path / "copy")
        answer(make_plan(model=OTHER_MODEL))
        answer(plan, own=with_dataset(policy, "others"))
        shutil.copy(copy, policy.sum_record)
        with pytest.raises(ValueError, match="an older copy"):
            answer(plan, np.zeros(N))

    def test_a_record_that_is_gone_is_missed(self, answer, policy):
        answer(make_plan())
        policy.sum_record.unlink()
        with pytest.raises(ValueError, match="record of masked answers cannot be used"):
            answer(make_plan(), np.zeros(N))

    def test_a_record_that_cannot_be_used_is_named(self, answer, tmp_path):
        (tmp_path / "file").write_text("no database")
        for path in (tmp_path / "file", tmp_path / "file" / "sums", tmp_path):
            own = fc.SitePolicy(sum_with=PUBLIC.values(), sum_record=path)
            with pytest.raises(
                ValueError, match="record of masked answers cannot be used"
            ):
                answer(make_plan(), own=own)

    def test_no_case_can_be_found_in_it(self, answer, policy):
        answer(make_plan(), identifiers=IDENTIFIERS)
        content = policy.sum_record.read_bytes()
        assert b"patient 7" not in content
        for text in (IDENTIFIERS[7], f"{SCORES[7]}"):
            assert (
                hashlib.sha256(text.encode()).hexdigest()[:32].encode() not in content
            )

    def test_it_is_beside_the_key_by_default_and_the_owner_reads_it(self, tmp_path):
        file = tmp_path / "north.key"
        file.write_bytes(KEYS["north"].to_pem())
        file.chmod(0o600)
        (tmp_path / "link.key").symlink_to(file)
        own = fc.SitePolicy(sum_with=[PUBLIC[name] for name in NAMES[1:]])
        plan, answers = make_plan(), []
        for path in (file, tmp_path / "link.key"):
            options = {
                "site": "north",
                "key": fc.SigningKey.read(path),
                "policy": own,
                "model": MODEL,
            }
            if not answers:
                sentence = fc.protocol.prepare(plan, SCORES, **options).sentence
            answers.append(
                fc.report(plan, np.random.default_rng(1).random(N), **options).to_json()
            )
        assert answers[0] == answers[1]
        assert (
            "recorded in north.key.sums beside the key: what other keys of this site"
            " have answered" in sentence
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "link.key",
            "north.key",
            "north.key.sums",
            "north.key.sums.seal",
        ]

    def test_a_key_from_nowhere_needs_a_named_record(self, answer):
        key = fc.SigningKey.from_pem(KEYS["north"].to_pem())
        own = fc.SitePolicy(sum_with=[PUBLIC[name] for name in NAMES[1:]])
        with pytest.raises(ValueError, match="durable record: name sum_record"):
            answer(make_plan(), key=key, own=own)

    def test_a_new_key_has_a_record_as_long_as_the_process(self):
        key = fc.SigningKey.new()
        policy = fc.SitePolicy()
        assert SumRecord.of(policy, key).path == SumRecord.of(policy, key).path
        assert (
            SumRecord.of(policy, key).path
            != SumRecord.of(policy, fc.SigningKey.new()).path
        )

    def test_a_home_folder_depends_on_who_runs_a_command(self):
        with pytest.raises(
            ValueError, match="sum_record must not depend on who runs a command"
        ):
            fc.SitePolicy(sum_record="~/sums")

    def test_it_is_where_the_policy_is_wherever_a_command_starts(
        self, answer, tmp_path, monkeypatch
    ):
        (tmp_path / "site").mkdir()
        text = (
            f'sum_with = {[PUBLIC[name] for name in NAMES[1:]]}\nsum_record = "sums"\n'
        )
        (tmp_path / "site" / "policy.toml").write_text(text)
        plan, answers = make_plan(), set()
        for folder, name in (
            (tmp_path, "site/policy.toml"),
            (tmp_path / "site", "policy.toml"),
        ):
            monkeypatch.chdir(folder)
            scores = np.random.default_rng(len(answers)).random(N)
            answers.add(answer(plan, scores, own=fc.SitePolicy.read(name)).to_json())
        assert len(answers) == 1
        assert [path.name for path in tmp_path.rglob("sums")] == ["sums"]


class TestModel:
    """Masks cancel only if all sites were asked the same, and used one model."""

    def test_a_plan_that_names_no_model_is_refused(self, answer):
        with pytest.raises(fc.PolicyError, match="names no model"):
            answer(make_plan(terms=None))

    def test_so_is_an_answer_whose_model_nobody_states(self, answer):
        with pytest.raises(
            fc.PolicyError, match="needs the model that made the scores"
        ):
            answer(make_plan(), model=None)

    def test_the_policy_may_state_it(self, answer, policy):
        own = fc.SitePolicy(
            sum_with=policy.sum_with,
            min_sum_with=1,
            sum_record=policy.sum_record,
            model=MODEL,
        )
        assert answer(make_plan(), model=None, own=own)
        with pytest.raises(fc.PolicyError, match="another model"):
            answer(make_plan(model=OTHER_MODEL), model=None, own=own)

    def test_another_model_is_refused(self, answer):
        with pytest.raises(ValueError, match="another model"):
            answer(make_plan(), model=OTHER_MODEL)
        with pytest.raises(ValueError, match="model must be a digest"):
            fc.SitePolicy(model="mine")

    @pytest.mark.parametrize("difference", ["plan", "received"])
    def test_sums_of_sites_that_were_told_different_things_cannot_be_read(
        self, difference, tmp_path
    ):
        """The cells of one site are in the sum, and no key but its own can find
        them.
        """
        plan, other = make_plan(), make_plan()
        payloads = []
        for name in NAMES:
            known = [PUBLIC[each] for each in NAMES if each != name]
            own = fc.SitePolicy(sum_with=known, sum_record=tmp_path / name)
            is_victim = name == "north"
            asked = other if difference == "plan" and not is_victim else plan
            received = (
                f"sha256:{64 * ('d' if is_victim or difference == 'plan' else 'e')}"
            )
            scores = SCORES if is_victim else np.full(N, 2.0)
            report = fc.report(
                asked,
                scores,
                site=name,
                key=KEYS[name],
                policy=own,
                model=MODEL,
                received=received,
            )
            payloads.append(report.payload)
        sums = np.array(add_up(payloads))
        assert np.abs(sums).min() > 2**30  # each below it with chance 2^-33

    def test_salts_are_bound_to_question_and_context(self):
        salts = {
            mask_salt(a, b)
            for a in (MODEL, OTHER_MODEL)
            for b in (None, MODEL, OTHER_MODEL)
        }
        assert len(salts) == 6


def test_who_sums_gives_nothing_in_the_clear_unless_its_policy_says_so():
    keys = [PUBLIC[name] for name in NAMES[1:]]
    assert fc.SitePolicy(sum_with=keys).masked_only is True
    assert fc.SitePolicy(sum_with=keys, masked_only=False).masked_only is False
    assert fc.SitePolicy().masked_only is False
    plain = fc.plan(n_points=dict.fromkeys(NAMES, N), curve=GRID)
    own = {"site": "north", "policy": fc.SitePolicy(sum_with=keys, curves="plain")}
    with pytest.raises(fc.PolicyError, match="masked_only"):
        fc.report(plain, SCORES, **own)
