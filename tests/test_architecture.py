"""Imports run one way, the core needs torch alone, and no file grows beyond what one reads at a sitting."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "aimfor"
#: A module may import from its own layer and from those before it.
LAYERS = [
    {"delimited", "errors", "failpoints", "files", "spelling", "__version__"},
    {"engine"},
    {"checks", "distributed", "bank", "ordering", "schedule", "twice", "watch"},
    {"constraints"},
    {"decisions"},
    {"sorted", "smooth", "lp", "lagrangian", "direct", "rates"},
    {"metrics"},
    {"compiled", "conventions"},
    {"loss", "positive_unlabelled", "regularized", "refit", "retrieval", "whole"},
    {"data"},
    {"targets"},
    {"learners"},
    {"runs"},
    {"report", "onnx"},
    {"cli"},
    {"integrations", "program"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
#: Parts that never import torch, nor what does: NumPy and SciPy alone, and of SciPy only what is quick to import.
WITHOUT_TORCH = {"constraints", "decisions", "delimited", "errors", "files", "spelling"}
#: Parts that may import more than torch and the standard library, at the top of a module.
BEYOND_CORE = {"data", "targets", "learners", "runs", "report", "onnx", "cli", "integrations", "program"}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[int, str]]:
    """(level, dotted name) of every import outside TYPE_CHECKING blocks."""
    found = []
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            if node.module:
                found.append((node.level, node.module))
            else:
                found += [(node.level, alias.name) for alias in node.names]
    return found


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if part_of(path) != "__init__"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_run_one_way(path: Path) -> None:
    own = part_of(path)
    depth = len(path.relative_to(SOURCE).parts)
    for level, name in imports(path):
        if level == depth or (level == 0 and name.startswith("aimfor.")):
            target = name.removeprefix("aimfor.").split(".")[0]
            assert target in RANK, f"{path}: {target} has no layer yet; give it one in this test"
            peers_apart = RANK[target] == RANK["sorted"] and RANK[own] == RANK["sorted"] and target != own
            assert RANK[target] <= RANK[own], f"{own} imports {target}, which stands above it"
            assert not peers_apart, f"engine {own} imports engine {target}"


@pytest.mark.parametrize(
    "path", [p for p in FILES if part_of(p) not in BEYOND_CORE], ids=lambda path: str(path.relative_to(SOURCE))
)
def test_core_imports_torch_only(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in tree.body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        for name in names:
            top = name.split(".")[0]
            without = part_of(path) in WITHOUT_TORCH
            allowed = ("numpy", "scipy") if without else ("torch", "numpy", "aimfor")
            assert top in sys.stdlib_module_names or top in allowed, f"{path} imports {name}"


def test_constraints_and_decisions_are_free_of_torch() -> None:
    code = (
        "import sys, aimfor.constraints, aimfor.decisions, aimfor.rates; "
        "print(*(name for name in sys.modules if name in ('torch', 'scipy.stats', 'scipy.optimize', 'pyarrow')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


#: Lines of a file. One that is longer has two meanings: split it by them. Many short ones are as long a walk.
MOST_LINES = 400
ALL_FILES = sorted(path for root in (SOURCE, SOURCE.parents[1] / "paper") for path in root.rglob("*.py"))


def test_no_file_is_longer_than_one_reads_at_a_sitting() -> None:
    assert len(ALL_FILES) > 200
    lengths = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in ALL_FILES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def public_home(module: str, name: str) -> str:
    """The package whose ``__all__`` names this very object: this one or one around it; the module where none does."""
    here = importlib.import_module(module)
    wanted = getattr(here, name, None)
    if name in getattr(here, "__all__", ()) or module == "aimfor.errors":
        return module
    for depth in range(1, module.count(".") + 1):
        home = ".".join(module.split(".")[:depth])
        package = importlib.import_module(home)
        if name in getattr(package, "__all__", ()) and getattr(package, name) is wanted:
            return home
    return module


def test_experiments_use_the_library_as_its_users_do() -> None:
    """No name with an underscore, and what is public is imported from where it is."""
    wrong = []
    for path in sorted((SOURCE.parents[1] / "paper").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("aimfor"):
                continue
            hidden = any(part.startswith("_") for part in str(node.module).split("."))
            for alias in node.names:
                home = public_home(str(node.module), alias.name)
                if hidden or alias.name.startswith("_") or len(home) < len(str(node.module)):
                    wrong.append(f"{path.name}:{node.lineno} {alias.name} of {node.module}, public in {home}")
    assert wrong == []


#: Lines and parameters of a function of the program. One call names all that it takes: it makes an ensemble.
MOST_FUNCTION, MOST_PARAMETERS, WIDE = 60, 12, {"fit_ensemble"}
PROGRAM = ("data", "targets", "learners", "runs", "report", "onnx", "cli", "program", "__main__")


def test_a_function_of_the_program_fits_a_screen() -> None:
    functions = [
        (node.name, (node.end_lineno or 0) - node.lineno + 1, len([*node.args.args, *node.args.kwonlyargs]))
        for path in ALL_FILES
        if SOURCE in path.parents and part_of(path) in PROGRAM
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    assert len(functions) > 1000
    assert {name for name, lines, given in functions if lines > MOST_FUNCTION or given > MOST_PARAMETERS} == WIDE


def test_mutants_that_are_named_alike_change_lines_that_are_there() -> None:
    root = SOURCE.parents[1]
    entries = tomllib.loads((root / "tools" / "mutants" / "equivalent.toml").read_text(encoding="utf-8"))["alike"]
    assert len(entries) > 50
    texts = {name: (root / name).read_text(encoding="utf-8") for name in {entry["file"] for entry in entries}}
    files = {name: {line.strip() for line in text.splitlines()} for name, text in texts.items()}
    gone = [entry["before"] for entry in entries if not set(entry["before"].splitlines()) <= files[entry["file"]]]
    assert gone == []
