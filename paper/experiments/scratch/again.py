"""The metrics whose default or judging has changed, measured again in the stored cells; all else in them stays.

AIMFOR_DATA=data python -m paper.experiments.scratch.again ndcg mrr

Both rivals are measured again with them, as `from_scratch` does it; every loss learns as it would alone. A run that was
stopped goes on: cells that are done lie beside the gathered ones until all are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import aimfor

from ...experiment import Options, data_folder, find_data
from ...run import _plain, _read_cache, _write_cells, gather
from .from_scratch import EXPERIMENT, compare
from .judging import NAMES, names_for

RESULTS = Path(__file__).parents[2] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=NAMES)
    asked = parser.parse_args().names
    options, folder = Options(data=find_data(None)), RESULTS / EXPERIMENT.name
    data_folder(options)
    done = {path.stem for path in folder.glob("*.json")}
    for key, entry in _read_cache(folder).items():
        names = [name for name in names_for(entry["cell"]["problem"]) if name in asked]
        if key in done or not names:
            continue
        entry["result"] |= _plain(compare(entry["cell"], options, {name: {"default": None} for name in names}))
        _write_cells(folder / f"{key}.json", entry | {"version": aimfor.__version__})
        print(key, flush=True)
    gather(folder)
    cells = {str(entry["cell"]): entry for entry in _read_cache(folder).values()}
    EXPERIMENT.report([cells[str(cell)] for cell in EXPERIMENT.cells(Options())], folder)


if __name__ == "__main__":
    main()
