"""Names say what they hold: the words of a private language are bound nowhere in src."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "aimfor"
#: Not words that are wrong in a sentence, but names that make a reader look up what they hold.
# fmt: off
WORDS = {
    "alike", "alone", "asked", "committee", "convene", "cut", "cuts", "found", "known", "learned",
    "look", "looked", "looks", "one", "part", "place", "places", "promised", "ready", "said",
    "seat", "seats", "shown", "sight", "sure", "who", "wish",
}
# fmt: on
#: Keys of files that earlier versions wrote.
KEYS = {"cli/decide/planned.py: cuts", "runs/evaluation.py: part"}


def bound(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, name) of every variable, argument, function and class, and of every import under another name."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append((node.lineno, node.name))
        elif isinstance(node, ast.ExceptHandler | ast.alias):
            name = node.name if isinstance(node, ast.ExceptHandler) else node.asname
            names.append((node.lineno, name or ""))
    return names


def test_names_say_what_they_hold() -> None:
    sample = "def f(x):\n    for one in x:\n        found = one"
    assert sorted(bound(ast.parse(sample))) == [(1, "f"), (1, "x"), (2, "one"), (3, "found")]
    vague = {
        f"{path.relative_to(SOURCE).as_posix()}: {name}"
        for path in SOURCE.rglob("*.py")
        for _, name in bound(ast.parse(path.read_text(encoding="utf8")))
        if name.strip("_").lower() in WORDS
    }
    assert vague == KEYS
