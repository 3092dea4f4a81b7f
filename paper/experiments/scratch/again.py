"""The metrics whose default has changed, measured again in the stored cells; all else in them stays.

AIMFOR_DATA=data python -m paper.experiments.scratch.again ndcg mrr

A loss learns as it would alone, so that the stored rivals are what they would be in a run of everything. A run that was
stopped goes on: cells that are done lie beside the gathered ones until all are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import aimfor

from ...experiment import Options, Result, data_folder, find_data
from ...run import _plain, _read_cache, _write_cells, gather
from .from_scratch import EXPERIMENT
from .judging import NAMES, judge, names_for
from .loop import train
from .problems import load

RESULTS = Path(__file__).parents[2] / "results"


def measured(cell: dict[str, object], names: list[str], data: Path) -> Result:
    """Each metric's default loss in that cell, as `from_scratch` judges it."""
    problem = load(data, str(cell["problem"]), int(str(cell["seed"])))
    looks = train(problem, [aimfor.MetricLoss(name) for name in names], int(str(cell["batch"])))
    return {name: judge(name, seen, problem) for name, seen in zip(names, looks, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=NAMES)
    asked = parser.parse_args().names
    torch.set_num_threads(1)
    data, folder = data_folder(Options(data=find_data(None))), RESULTS / EXPERIMENT.name
    done = {path.stem for path in folder.glob("*.json")}
    for key, entry in _read_cache(folder).items():
        names = [name for name in names_for(entry["cell"]["problem"]) if name in asked]
        if key in done or not names:
            continue
        for name, found in measured(entry["cell"], names, data).items():
            entry["result"][name]["default"] = _plain(found)
        _write_cells(folder / f"{key}.json", entry | {"version": aimfor.__version__})
        print(key, flush=True)
    gather(folder)
    cells = {str(entry["cell"]): entry for entry in _read_cache(folder).values()}
    EXPERIMENT.report([cells[str(cell)] for cell in EXPERIMENT.cells(Options())], folder)


if __name__ == "__main__":
    main()
