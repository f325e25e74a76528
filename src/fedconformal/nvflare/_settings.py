"""Settings of a site in a file that no job can change, its own log, and jobs without this package's files."""

import logging
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from nvflare.apis.fl_context import FLContext

from fedconformal._outputs import warn_if_shared
from fedconformal._text import listed, quoted
from fedconformal.documents import SigningKey
from fedconformal.privacy import Ledger
from fedconformal.protocol import SitePolicy
from fedconformal.rounds import Site

FILE, LOG = "fedconformal.toml", "fedconformal-log"
_NUMBER = "check_epsilon"
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Settings:
    """Content of ``local/fedconformal.toml`` in a site's workspace; everything in it may be left out."""

    folder: Path
    scores: str | None = None
    check_scores: str | None = None
    policy: str | None = None
    ledger: str | None = None
    dataset: str | None = None
    check_dataset: str | None = None
    check_epsilon: float | None = None
    signing_key: str | None = None

    @classmethod
    def read(cls, fl_ctx: FLContext) -> Self:
        """Read the settings of the site that a context belongs to."""
        folder = Path(fl_ctx.get_workspace().get_site_config_dir())
        file = folder / FILE
        given = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        known = [field.name for field in fields(cls) if field.name != "folder"]
        if unknown := set(given) - set(known):
            raise ValueError(f"{file} may hold {listed(known)}, got {quoted(sorted(unknown))}")
        for name, value in given.items():
            kind = int | float if name == _NUMBER else str
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"{file}: {name} must be a {'number' if name == _NUMBER else 'text'}")
        return cls(folder, **given)

    def site(self, name: str, *, of_checks: bool = False) -> Site:
        """Return the site that answers, under the name that it was provisioned under."""
        return Site(
            name,
            None if self.signing_key is None else self._key(self.folder / self.signing_key),
            None if self.ledger is None else Ledger(self.folder / self.ledger),
            self.check_dataset if of_checks else self.dataset,
            None if self.policy is None else SitePolicy.read(self.folder / self.policy),
        )

    def function(self, key: str) -> Callable[..., Any]:
        """Return the function that the site itself names, as ``package.module:function``."""
        given = getattr(self, key)
        if given is None:
            raise ValueError(
                f"no {key}: subclass ConformalExecutor, or name a function in {self.folder / FILE}, "
                f'{key} = "package.module:function"'
            )
        module, separator, name = given.partition(":")
        if not separator:
            raise ValueError(f'{key} must be "package.module:function", got {given!r}')
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function

    @staticmethod
    def _key(path: Path) -> SigningKey:
        warn_if_shared(path)
        return SigningKey.from_pem(path.read_bytes())


def own_log(fl_ctx: FLContext) -> logging.Logger:
    """Return a log in a file of the site's workspace that FLARE does not stream to the server.

    FLARE streams its own logs, and any other file in the folder of a job's logs that the job names; this file
    is outside of it, and reaches none of FLARE's handlers. FLARE's console shows administrators files of a
    site with the suffix of a text file; this one has none.
    """
    root = Path(fl_ctx.get_workspace().get_root_dir()).resolve()
    log = logging.getLogger(f"fedconformal.nvflare.site.{str(root).replace('.', '_')}")
    log.propagate = False
    log.setLevel(logging.INFO)
    if not log.handlers:
        log.addHandler(logging.NullHandler())
        with suppress(OSError):
            (root / LOG).touch(mode=0o600)
            to_file = logging.FileHandler(root / LOG, encoding="utf-8")
            to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            log.addHandler(to_file)
    return log


def leave_out_of_jobs(job: Any) -> None:
    """Keep FLARE's job API from copying this package's files into a job, which would make it custom code."""
    packages = job.job.app_packages
    if _PACKAGE not in packages:
        job.set_app_packages([*packages, _PACKAGE])
