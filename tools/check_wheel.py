"""Builds sdist and wheel and tries them as a stranger would: in a new environment, away from the repository.

    python tools/check_wheel.py [--program] [--pythons]

The wheel is built from the sdist, both pass `twine check`. With NumPy and SciPy alone it decides and checks; beside
torch every registered metric gives a loss with a gradient and a user's file passes `mypy --strict`. `--program` then
adds the extras `[train]` and `[images]` to the same environment, one after the other, and trains and predicts from
another directory. `--pythons` asks the package index whether every dependency has a wheel for each Python that the
metadata name, and types the package for each.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
STRANGER = ROOT / "tools" / "stranger"


def run(*command: object, cwd: Path, code: int = 0) -> str:
    """What the command prints. PYTHONPATH is left out, or the repository would stand in for the wheel."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "MYPY"))}
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, env=alone)
    if done.returncode != code:
        sys.exit(f"failed: {' '.join(map(str, command))[:200]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


@contextmanager
def step(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:5.0f} s  {what}", flush=True)


@dataclass(frozen=True)
class Environment:
    """A new virtual environment that knows nothing of the repository."""

    folder: Path

    @classmethod
    def new(cls, folder: Path) -> Environment:
        run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
        return cls(folder)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *what: object) -> None:
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-compile")
        run(*pip, "-c", CONSTRAINTS, *what, cwd=self.folder)


def packed_files(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name}


def check_contents(wheel: Path, sdist: Path) -> None:
    """The wheel holds the package alone, every file of it; the sdist what is needed to test it."""
    packed = packed_files(wheel)
    page = next(name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("dist-info/METADATA"))
    dead = re.findall(r"\]\((?!https://|#)[^)\s]*\.(?:md|png|svg)\)", zipfile.ZipFile(wheel).read(page).decode())
    assert not dead, f"links of the index page that lead nowhere: {dead}"
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "aimfor").rglob("*") if path.is_file()}
    assert packed == {name for name in sources if "__pycache__" not in name}, packed ^ sources
    with tarfile.open(sdist) as archive:
        names = {"/".join(name.split("/")[1:2]) for name in archive.getnames()}
    wanted = {"src", "tests", "docs", "examples", "tools", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"}
    assert wanted <= names, wanted - names


def build(folder: Path) -> tuple[Path, Path]:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    wheel, sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=folder)
    check_contents(wheel, sdist)
    return wheel, sdist


def check_types(new: Environment, folder: Path) -> None:
    """A user's file passes `mypy --strict` against the installed wheel, and a wrong one does not."""
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", new.python, "--cache-dir", folder / "mypy")
    run(*mypy, STRANGER / "typed.py", cwd=folder)
    said = run(*mypy, STRANGER / "typed_wrongly.py", cwd=folder, code=1)
    lines = (STRANGER / "typed_wrongly.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = {int(line.split(":")[1]) for line in said.splitlines() if "error:" in line}
    assert found == wrong, said


def check_sdist(new: Environment, sdist: Path, wheel: Path, folder: Path) -> None:
    place = folder / "from_sdist"
    new.install("--no-deps", "--target", place, sdist)
    installed = {str(path.relative_to(place)) for path in (place / "aimfor").rglob("*") if path.is_file()}
    assert installed == packed_files(wheel), installed ^ packed_files(wheel)


def check_program(new: Environment, wheel: Path, folder: Path) -> None:
    with step("[train] installed"):
        new.install(f"{wheel}[train]")
    with step("the program trains, predicts and reports from another directory"):
        print(run(new.python, STRANGER / "tables.py", cwd=folder), end="")
    with step("[images] installed"):
        new.install(f"{wheel}[train,images]")
    with step("pictures: the backbone loads, a folder trains and predicts"):
        print(run(new.python, STRANGER / "photos.py", cwd=folder), end="")


def check_pythons() -> None:
    """Every Python of the classifiers: wheels of torch and of both extras, and types by that Python's own library."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rsplit(" ", 1)[1] for line in project["classifiers"] if "Python :: 3." in line]
    extras = project["optional-dependencies"]
    packages = [*project["dependencies"], *extras["torch"], *extras["train"], *extras["images"]]
    for version in named:
        with tempfile.TemporaryDirectory() as place, step(f"Python {version}: {len(packages)} packages, types"):
            dry = ("install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--only-binary=:all:")
            for_version = ("--python-version", version, "--target", place, "-c", CONSTRAINTS)
            run(sys.executable, "-m", "pip", *dry, *for_version, *packages, cwd=ROOT)
            cache = Path(place) / "mypy"
            run(sys.executable, "-m", "mypy", "--python-version", version, "--cache-dir", cache, "src/aimfor", cwd=ROOT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", action="store_true", help="try the extras as well")
    parser.add_argument("--pythons", action="store_true", help="ask for wheels for each Python of the metadata")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with step("sdist and wheel built, checked by twine"):
            wheel, sdist = build(folder)
        with step("the wheel with NumPy and SciPy; decide and check without torch"):
            base = Environment.new(folder / "base")
            base.install(wheel)
            print(run(base.python, STRANGER / "decisions.py", cwd=folder), end="")
        with step("torch installed"):
            new = Environment.new(folder / "new")
            new.install("torch")
        with step("the wheel with its losses; a user's types; the sdist"):
            new.install(f"{wheel}[torch]")
            print(run(new.python, STRANGER / "library.py", cwd=folder), end="")
            check_types(new, folder)
            check_sdist(new, sdist, wheel, folder)
        if asked.program:
            check_program(new, wheel, folder)
    if asked.pythons:
        check_pythons()


if __name__ == "__main__":
    main()
