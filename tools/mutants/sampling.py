"""Which mutants there are, a seeded sample of them, and what each changes."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from operators import OWN

ROOT = Path(__file__).parents[2]
#: Operators that take the same operands.
FAMILIES = (
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Pow"},
    {"BitAnd", "BitOr", "BitXor"},
    {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"},
    {"Is", "IsNot"},
)


@dataclass(frozen=True)
class Mutant:
    """One change of one file; ``occurrence`` is the operator's own count."""

    path: str
    line: int
    column: int
    operator: str
    occurrence: int

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}:{self.column} {self.operator} {self.occurrence}"


def operator_named(name: str) -> Any:
    return OWN[name]() if name in OWN else get_operator(name)()


def usable_operators() -> list[str]:
    """Cosmic Ray's operators without those that can only crash, such as a shift of float tensors, and ours."""
    names = [name for name in operator_names() if not get_operator(name).arguments()]
    return [name for name in names if not _only_crashes(name)] + list(OWN)


def _only_crashes(name: str) -> bool:
    parts = name.split("_")
    if "BinaryOperator" in name or "ComparisonOperator" in name:
        return not any({*parts[1:]} <= family for family in FAMILIES)
    return "UnaryOperator" in name and parts[-1] in ("Invert", "Not")


@cache
def source_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def mutants_of(path: str) -> Iterator[Mutant]:
    """Every mutant of what runs inside functions: not annotations, decorators, class bodies or module constants."""
    source, skipped = source_of(path), set(_unread_places(source_of(path)))
    inside = set(_function_places(source))
    nodes = list(ast_nodes(get_ast(source)))
    for name in usable_operators():
        operator = operator_named(name)
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(places):
            if (line, column) in inside and (line, column) not in skipped:
                yield Mutant(path, line, column, name, occurrence)


def _function_places(source: str) -> Iterator[tuple[int, int]]:
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            yield from _places(node, lines)


def _unread_places(source: str) -> Iterator[tuple[int, int]]:
    """Annotations, blocks for type checkers, and signatures apart from their default values."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        unread = [getattr(node, "annotation", None)]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            unread.append(node)
        for part in unread:
            if isinstance(part, ast.AST):
                yield from _places(part, lines)
        if isinstance(node, ast.FunctionDef):
            defaults = [value for value in (*node.args.defaults, *node.args.kw_defaults) if value is not None]
            kept = {place for value in defaults for place in _places(value, lines)}
            body = node.body[0]
            before = (place for place in _places(node, lines) if place < (body.lineno, body.col_offset))
            yield from (place for place in before if place not in kept)


def _places(node: Any, lines: list[str]) -> Iterator[tuple[int, int]]:
    for line in range(node.lineno, node.end_lineno + 1):
        first = node.col_offset if line == node.lineno else 0
        last = node.end_col_offset if line == node.end_lineno else len(lines[line - 1])
        yield from ((line, column) for column in range(first, last))


def files(package: str) -> list[Path]:
    """Files of a package, or of several (``a+b``); "contract" is what stands beside them and runs in one process."""
    home = ROOT / "src" / "aimfor"
    if package == "contract":
        return sorted(path for path in home.glob("*.py") if path.stem not in ("__main__", "distributed"))
    return sorted(path for part in package.split("+") for path in (home / part).rglob("*.py"))


def sample(package: str, count: int, seed: int) -> list[Mutant]:
    """``count`` places of the package, drawn without repetition, and one mutation of each."""
    places: dict[tuple[str, int, int], list[Mutant]] = {}
    for path in files(package):
        for mutant in mutants_of(str(path.relative_to(ROOT))):
            places.setdefault((mutant.path, mutant.line, mutant.column), []).append(mutant)
    draw = random.Random(f"{package} {seed}")
    chosen = draw.sample(sorted(places), len(places))
    found = (draw.choice(places[place]) for place in chosen)
    return list(islice((mutant for mutant in found if _compiles(mutant)), count))


def _compiles(mutant: Mutant) -> bool:
    """The star of an unpacked argument looks like a product: such a mutant is no Python. Nor has Cosmic Ray another
    exception for one with a dot in its name."""
    try:
        compile(mutated(mutant), mutant.path, "exec")
    except (SyntaxError, AttributeError):
        return False
    return True


def mutated(mutant: Mutant) -> str:
    code: str = mutate_code(source_of(mutant.path), operator_named(mutant.operator), mutant.occurrence)
    return code


def change(mutant: Mutant) -> tuple[str, str]:
    """The lines that differ, before and after, without indentation."""
    before, after = source_of(mutant.path).split("\n"), mutated(mutant).split("\n")
    head = next(i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    most, tail = min(len(before), len(after)) - head, 0
    while tail < most and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    return " ".join(line.strip() for line in old), " ".join(line.strip() for line in new)
