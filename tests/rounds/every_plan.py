"""A round of every kind of plan: what each site has, and its report as it would go
through files.
"""

import numpy as np

import fedconformal as fc

SITES = ("A", "B", "C")
SCORES = {site: np.random.default_rng(i).random(300) for i, site in enumerate(SITES)}
LABELS = {
    site: np.where(np.arange(300) < 140 + 10 * i, "child", "adult")
    for i, site in enumerate(SITES)
}
SIZES = {
    label: {site: int((LABELS[site] == label).sum()) for site in SITES}
    for label in ("adult", "child")
}
BINS = fc.Bins.uniform(0, 1, 20)
NAMED = {"n_points": dict.fromkeys(SITES, 300)}
MODEL = f"sha256:{64 * 'a'}"

PLANS = {
    "ranks": NAMED,
    "three numbers, two levels": {
        **NAMED,
        "numbers": 3,
        "confidence_level": [0.6, 0.7],
    },
    "open": {"n_sites": list(SITES)},
    "mixture": {**NAMED, "promise": "mixture"},
    "cases": {**NAMED, "promise": "new-site"},
    "exact curve": {**NAMED, "curve": BINS, "confidence_level": [0.6, 0.7]},
    "private curve": {
        **NAMED,
        "privacy": fc.Privacy(4.0, BINS),
        "confidence_level": [0.6, 0.7],
    },
    "paper's bin": {**NAMED, "privacy": fc.Privacy(4.0, BINS, analysis="paper")},
    "groups": {"groups": SIZES},
    "open groups": {"groups": dict.fromkeys(SIZES), "n_sites": list(SITES)},
    "groups, private curve": {"groups": SIZES, "privacy": fc.Privacy(4.0, BINS)},
    "classes": {"groups": SIZES, "group_by": "class", "score": "lac"},
    "classes, exact curve": {
        "groups": SIZES,
        "group_by": "class",
        "score": "lac",
        "curve": BINS,
    },
    "groups by site": {**NAMED, "group_by": "site"},
    "groups by site and class": {
        "groups": SIZES,
        "group_by": ("site", "class"),
        "score": "lac",
    },
    "signed": {**NAMED, "keys": True},
    "masked curve": {**NAMED, "curve": BINS, "keys": True, "masked": True},
    "masked, two bearers": {
        **NAMED,
        "privacy": fc.Privacy(4.0, BINS, bearers=2),
        "keys": True,
        "masked": True,
    },
    "masked groups": {"groups": SIZES, "curve": BINS, "keys": True, "masked": True},
}
"""Arguments of `fedconformal.plan` by what they show."""


class Round:
    """One plan, and what each of its sites has: scores with labels, and perhaps a key,
    an account, a policy.

    ``files`` has them by the names of FLARE's settings, and ``options`` as
    `fedconformal.report` takes them.
    """

    def __init__(self, name, folder):
        arguments = {"confidence_level": 0.7, **PLANS[name]}
        self.files, self.options = (
            {site: {} for site in SITES},
            {site: {} for site in SITES},
        )
        for site in SITES:
            if "curve" in arguments:
                self._add(
                    site,
                    "policy",
                    fc.SitePolicy(curves="plain"),
                    folder / "policy.toml",
                )
                (folder / "policy.toml").write_text('curves = "plain"')
            if "privacy" in arguments:
                path = folder / f"{site}.ledger"
                self._add(site, "ledger", fc.Ledger.create(path), path)
                self._add(site, "dataset", "mine", "mine")
                self.options[site]["ledger"].set_budget("mine", 4.0)
            if "keys" in arguments:
                key, path = fc.SigningKey.new(), folder / f"{site}.pem"
                self._add(site, "signing_key", key, path)
                path.touch(mode=0o600)
                path.write_bytes(key.to_pem())
        if "masked" in arguments:
            self._add_sums(folder)
            arguments["terms"] = {"model": MODEL}
        if "keys" in arguments:
            arguments["keys"] = {
                site: self.options[site]["key"].public_key for site in SITES
            }
        self.plan = fc.plan(**arguments)

    def _add_sums(self, folder):
        """Pin the keys of the other sites in a policy of each."""
        for site in SITES:
            path, record = folder / f"{site}.toml", folder / f"{site}.sums"
            others = [
                self.options[other]["key"].public_key
                for other in SITES
                if other != site
            ]
            path.write_text(
                f"sum_with = {others}\nmin_sum_with = 2\n"
                f'sum_record = "{record.as_posix()}"\nmodel = "{MODEL}"\n'
            )
            self._add(site, "policy", fc.SitePolicy.read(path), path)

    def _add(self, site, name, value, text):
        self.files[site][name] = str(text)
        self.options[site][name.removeprefix("signing_")] = value

    def expected(self):
        """Return the calibration as through files; a ledger gives the answer again that
        it has charged.
        """
        labelled = self.plan.grouping.has_labels
        reports = [
            fc.report(
                self.plan,
                SCORES[site],
                groups=LABELS[site] if labelled else None,
                score="lac",
                site=site,
                **self.options[site],
            )
            for site in SITES
        ]
        return reports, fc.calibrate(self.plan, reports)


def scores_and_labels(site):
    """Return what a site's own function computes, with labels and score whether or not
    they are needed.
    """
    return {"scores": SCORES[site], "groups": LABELS[site], "score": "lac"}
