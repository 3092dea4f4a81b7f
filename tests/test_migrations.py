"""The migration pages: our side runs in test_docs; here the peers' side, where the peer is installed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
try:
    run_migrations = importlib.import_module("run_migrations")
finally:
    sys.path.pop(0)

PAGES = sorted(run_migrations.PEERS)


@pytest.mark.parametrize("page", PAGES)
def test_left_hand_code_runs_where_the_peer_is_installed(page: str) -> None:
    peer, _, module = run_migrations.PEERS[page]
    theirs, ours = (run_migrations.code(page, side) for side in ("py", "python"))
    assert f"import {module}" in theirs or f"from {module}" in theirs
    assert "import aimfor" in ours or "from aimfor" in ours
    tree = ast.parse(theirs)
    assert len(tree.body) > 5
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{peer} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peer's own affair
        try:
            exec(compile(tree, f"{page}.md, left", "exec"), {"__name__": "__page__"})
        except ModuleNotFoundError as missing:  # LibAUC asks for torchvision, of which there is no build for the CPU
            pytest.skip(f"{peer} cannot be imported without {missing.name}")


def test_the_index_names_every_peer_and_whether_its_code_ran() -> None:
    index = (run_migrations.PAGES / "index.md").read_text()
    assert {path.stem for path in run_migrations.PAGES.glob("*.md")} == {"index", *PAGES}
    for page in PAGES:
        (outcome,) = re.findall(rf"^\| \[[^]]*\]\({page}\.md\) \| [^|]* \| ([^|]*) \|", index, re.MULTILINE)
        assert outcome.startswith(("ran, 20", "not installed here"))
    assert "failed" not in index


def test_a_side_that_fails_is_named_with_its_complaint() -> None:
    found = run_migrations.run(sys.executable, "left = 1 / 0", "aimfor", "left")
    assert found == {"error": "ZeroDivisionError: division by zero"}
    assert run_migrations.run(sys.executable, "left = 2", "no-such-thing", "left") == {"version": "", "value": 2.0}
