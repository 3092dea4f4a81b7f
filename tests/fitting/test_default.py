"""The one default: what is made where nobody says what, and that nobody else decides it."""

from __future__ import annotations

from pathlib import Path

import aimfor
from aimfor.fitting.default import default_recipe

SOURCE = Path(aimfor.__file__).parent


def test_a_committee_wherever_it_can_be() -> None:
    recipe = default_recipe(one_network=True)
    assert default_recipe() is None
    assert recipe is not None
    assert recipe.name == "auto"


def test_nobody_else_names_a_default_recipe() -> None:
    named = ('find_recipe("auto")', 'find_recipe("cross_entropy")')
    files = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if any(name in line for name in named) and not line.strip().startswith(">>>")  # an example is no default
    }
    assert files == {"fitting/default.py"}
