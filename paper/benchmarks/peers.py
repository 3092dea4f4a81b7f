"""The packages that benchmarks stand beside, and whether they can be imported here.

Installed is not enough: AP-Perf without numba is found and cannot be imported. So each is imported, in another process,
because some of them change how the rest behaves.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence

#: By the module that must be there. ECOS is one of cvxpylayers' solvers; `distributed` is Dask.
PEERS = (
    "libauc",
    "ap_perf",
    "pycocotools",
    "pytorch_metric_learning",
    "segmentation_models_pytorch",
    "pyepo",
    "sentence_transformers",
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
    "bench_exact.py": "torchmetrics",
    "bench_guarantee.py": "mapie",
    "bench_executors.py": "distributed",
    "bench_pictures.py": "efficientnet_lite_pytorch",
}


_TRY = """
import importlib, sys
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
    except Exception:
        continue
    print(module, flush=True)
"""


def importable(modules: Sequence[str]) -> set[str]:
    """One process for all of them, as most import torch; one for each if a module brings the process down."""
    words = [sys.executable, "-W", "ignore", "-c", _TRY, *modules]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and len(modules) > 1:
        return set().union(*(importable([module]) for module in modules))
    return set(modules) & set(done.stdout.split())


def versions(modules: Sequence[str] = PEERS) -> dict[str, str | None]:
    """Of the packages that hold the modules; None for a module that cannot be imported."""
    there, packages = importable(modules), importlib.metadata.packages_distributions()

    def version(module: str) -> str:
        return importlib.metadata.version(packages[module][0]) if module in packages else "of unknown version"

    return {module: version(module) if module in there else None for module in modules}


def missing_for(command: str) -> str | None:
    """What the command cannot do without and does not find."""
    wanted = [module for words, module in NEEDS.items() if words in command]
    return next((module for module, found in versions(wanted).items() if found is None), None) if wanted else None
