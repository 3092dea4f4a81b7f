"""The packages that benchmarks stand beside, and whether they can be imported here.

Installed is not enough: AP-Perf without numba is found and cannot be imported. So each is imported, in a process of its
own, because some of them take seconds and change how the rest behaves.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterable

#: By the module that must be there. ECOS is one of cvxpylayers' solvers; `distributed` is Dask.
PEERS = (
    "libauc",
    "ap_perf",
    "pytorch_metric_learning",
    "torchmetrics",
    "faiss",
    "lightgbm",
    "sklearn",
    "mapie",
    "cvxpylayers",
    "ecos",
    "qpth",
    "moreau",
    "distributed",
)
#: Words of a command → what it cannot do without; others leave an absent peer out of their table.
NEEDS = {
    "bench_smooth.py peers": "pytorch_metric_learning",
    "bench_smooth.py faiss": "faiss",
    "bench_small.py --exact": "torchmetrics",
    "bench_guarantee.py": "mapie",
    "bench_executors.py": "distributed",
    "bench_pictures.py": "efficientnet_lite_pytorch",
}


def version(module: str) -> str | None:
    """Of the package that holds the module; None if the module cannot be imported."""
    words = [sys.executable, "-W", "ignore", "-c", f"import {module}"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        return None
    packages = importlib.metadata.packages_distributions().get(module)
    return importlib.metadata.version(packages[0]) if packages else "of unknown version"


def versions(modules: Iterable[str] = PEERS) -> dict[str, str | None]:
    return {module: version(module) for module in modules}


def missing_for(command: str) -> str | None:
    """What the command cannot do without and does not find."""
    wanted = [module for words, module in NEEDS.items() if words in command]
    return next((module for module in wanted if version(module) is None), None)
