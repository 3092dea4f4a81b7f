"""A run folder is data: nothing in it is executed unless the user names the code it asks for.

``--model package.module:factory`` is written into config.json, so a folder from a stranger could name any importable
function. Reading such a folder therefore needs ``--trust`` with exactly that name, and the module is looked up
where Python looks for installed packages, never in the current directory.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import InputError
from ...fitting.backbones import is_backbone
from ...fitting.models import BUILT_IN


def check_trust(folder: Path, model: str, trust: str | None) -> None:
    """Raises `InputError` when a run folder names code that the user did not."""
    if model in ("auto", *BUILT_IN) or is_backbone(model) or model == trust:
        return
    came = f"{folder}, whose config.json asks for the code {model!r}"
    if trust is not None:
        raise InputError("--trust", f"{trust!r}, while {came}", "the name of exactly that code")
    remedy = f"If you know that code and it is installed: --trust {model}."
    raise InputError("run", came, "a run of a built-in model", remedy)


def find_typed_code(model: str) -> None:
    """Lets ``--model module:factory``, typed by the user, be found in the directory the user stands in."""
    here = str(Path.cwd())
    if ":" in model and here not in sys.path:
        sys.path.insert(0, here)
