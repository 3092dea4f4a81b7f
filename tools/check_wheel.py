"""Builds wheel and sdist and tries them as a stranger would: in new environments, away from the repository.

    python tools/check_wheel.py [--program]

The wheel beside torch alone imports, and every registered metric gives a loss with a gradient. With ``--program`` the
extra ``[train]`` is installed too and the command line trains, predicts and reports from another directory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LIBRARY = """
import torch, aimfor
from aimfor.metrics.registry import METRICS
shapes = {"binary": (24,), "multiclass": (24, 3), "multilabel": (24, 3), "lists": (5, 7)}
for entry in METRICS:
    metric = aimfor.metric_from_name(entry.example)
    shape = shapes.get(metric.layout, (24, 3))
    scores = torch.randn(shape, requires_grad=True)
    targets = torch.arange(24) % 3 if metric.layout == "multiclass" else (torch.rand(shape) < 0.4).long()
    try:
        loss_fn = aimfor.MetricLoss(metric)
    except aimfor.UnsupportedPairError as refusal:
        assert "LagrangianEngine" in str(refusal), refusal
        continue
    loss = loss_fn(scores, targets)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(scores.grad).all(), entry.example
print(len(METRICS), "metrics beside torch", torch.__version__)
"""


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))[:200]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def check_contents(folder: Path) -> Path:
    """The wheel holds the package alone; the sdist what is needed to test it."""
    wheel, sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
    packed = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in packed if "dist-info" not in name} == {"aimfor"}, packed
    assert {"aimfor/py.typed", "aimfor/support.txt"} <= set(packed)
    with tarfile.open(sdist) as archive:
        names = {"/".join(name.split("/")[1:2]) for name in archive.getnames()}
    assert {"src", "tests", "docs", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"} <= names, names
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", action="store_true")
    program = parser.parse_args().program
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
        wheel = check_contents(folder)
        run(sys.executable, "-m", "venv", folder / "new", cwd=folder)
        python, constraints = folder / "new" / "bin" / "python", ROOT / "constraints.txt"
        pip = (python, "-m", "pip", "install", "--quiet", "-c", constraints)
        run(*pip, "torch", cwd=folder)
        run(*pip, wheel, cwd=folder)
        print(run(python, "-c", LIBRARY, cwd=folder), end="")
        if program:
            run(*pip, f"{wheel}[train]", cwd=folder)
            aimfor = folder / "new" / "bin" / "aimfor"
            run(aimfor, "train", "breast_cancer", "--metric", "f1", "--out", "run", "--quiet", cwd=folder)
            scored = run(aimfor, "predict", "run", "breast_cancer", cwd=folder)
            assert len(scored.splitlines()) == 570, scored[:200]
            print("the program trains and predicts from another directory")


if __name__ == "__main__":
    main()
