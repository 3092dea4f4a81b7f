"""The metrics whose default or judging has changed, measured again in the stored cells; all else in them stays.

AIMFOR_DATA=data python -m paper.experiments.scratch.again ndcg mrr [--engines]

Both rivals are measured again with them, as `from_scratch` does it; with --engines, as `from_scratch_engines` does,
every engine that it tries. Each loss learns as it would alone. A run that was stopped goes on: cells that are done lie
beside the gathered ones until all are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import aimfor

from ...experiment import Options, data_folder, find_data
from ...run import _plain, _read_cache, _write_cells, gather
from . import engines, from_scratch
from .from_scratch import compare
from .judging import NAMES, names_for

RESULTS = Path(__file__).parents[2] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=NAMES)
    parser.add_argument("--engines", action="store_true", help="the engines that were tried, not the defaults")
    given = parser.parse_args()
    experiment = engines.EXPERIMENT if given.engines else from_scratch.EXPERIMENT
    options, folder = Options(experiment.seeds, find_data(None)), RESULTS / experiment.name
    data_folder(options)
    done = {path.stem for path in folder.glob("*.json")}
    for key, entry in _read_cache(folder).items():
        problem = entry["cell"]["problem"]
        makes = engines.tried(problem) if given.engines else {name: {"default": None} for name in names_for(problem)}
        asked = {name: some for name, some in makes.items() if name in given.names}
        if key in done or not asked:
            continue
        entry["result"] |= _plain(compare(entry["cell"], options, asked))
        _write_cells(folder / f"{key}.json", entry | {"version": aimfor.__version__})
        print(key, flush=True)
    gather(folder)
    cells = {str(entry["cell"]): entry for entry in _read_cache(folder).values()}
    experiment.report([cells[str(cell)] for cell in experiment.cells(options) if str(cell) in cells], folder)


if __name__ == "__main__":
    main()
