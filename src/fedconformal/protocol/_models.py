"""Which model a plan is for."""

import hashlib
import os
import re
from pathlib import Path

from fedconformal.documents import Plan

Model = str | os.PathLike[str]
"""The digest of a model, ``sha256:...``, or the path of its file."""

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def model_digest(model: Model) -> str:
    """The digest by which plans name a model.

    Parameters
    ----------
    model : str or path-like
        The path of the model's file; or a digest, which is taken as it is.

    Returns
    -------
    str
        SHA-256 of the file's bytes.

    Raises
    ------
    ValueError
        If the file cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.protocol import model_digest
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.bin"
    ...     _ = path.write_bytes(b"weights")
    ...     print(model_digest(path)[:14])
    sha256:9a12903
    """
    if isinstance(model, str) and _DIGEST.fullmatch(model):
        return model
    try:
        with Path(model).open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise ValueError(f"{model}: {error.strerror or error}") from None


def check_model(plan: Plan, model: Model | None) -> None:
    """Refuse scores of another model than the plan's; a plan that names none cannot be compared."""
    if model is None:
        return
    if plan.model is None:
        raise ValueError("model cannot be compared: this plan does not say which model it is for")
    found = model_digest(model)
    if found != plan.model:
        raise ValueError(f"this plan is for another model, {plan.model[:19]}..., than {found[:19]}...")
