"""The one default: what is made where nobody says what, and that nobody else decides it."""

from __future__ import annotations

from pathlib import Path

import aimfor
from aimfor.fitting.default import default_recipe

SOURCE = Path(aimfor.__file__).parent


def test_a_committee_wherever_it_can_be() -> None:
    assert default_recipe("table") is None
    found = {
        (kind, one): default_recipe(kind, one_network=one)
        for kind in ("table", "pictures", "stream")
        for one in (False, True)
    }
    names = {key: None if recipe is None else recipe.name for key, recipe in found.items()}
    assert names == {
        ("table", False): None,
        ("table", True): "auto",
        ("pictures", False): None,
        ("pictures", True): "auto",
        ("stream", False): "cross_entropy",
        ("stream", True): "cross_entropy",
    }


def test_nobody_else_names_a_default_recipe() -> None:
    named = ('find_recipe("auto")', 'find_recipe("cross_entropy")')
    files = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if any(name in line for name in named) and not line.strip().startswith(">>>")  # an example is no default
    }
    assert files == {"fitting/default.py"}
