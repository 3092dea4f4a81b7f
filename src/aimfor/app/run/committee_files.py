"""A committee in a run folder: committee.json, one file a member and fold; trees as LightGBM's own text. No pickle."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import torch

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.committee import Committee
from ...fitting.committee.members import TunedTail
from ...fitting.committee.store import Kept

COMMITTEE, MEMBERS, CELLS = "committee.json", "members", "cells"


def save_committee(folder: Path, committee: Committee) -> None:
    """Members first, committee.json last: a folder that has it has everything."""
    (folder / MEMBERS).mkdir(exist_ok=True)
    texts: dict[str, Any] = {}
    for name, (tensors, facts) in committee.parts():
        if "lightgbm" in tensors:
            content = tensors["lightgbm"].numpy().tobytes()
            checkpoint.write_bytes(folder / MEMBERS / f"{name}.txt", content)
            texts[name] = {"facts": facts, "sha256": hashlib.sha256(content).hexdigest()}
        else:
            checkpoint.save(folder / MEMBERS / f"{name}.safetensors", tensors, facts)
    checkpoint.write_json(folder / COMMITTEE, {**committee.facts, "texts": texts})


def load_committee(folder: Path, backbone: str = "") -> Committee:
    """The committee; ``backbone`` is what a fine-tuned member was pretrained as, which its files do not name.

    Raises `InputError` naming the file that is missing or damaged."""
    document = checkpoint.read_json(folder / COMMITTEE)
    with checkpoint.reading(folder / COMMITTEE):
        texts = document["texts"]

        def get(name: str) -> Kept:
            if name not in texts:
                return checkpoint.load(folder / MEMBERS / f"{name}.safetensors")
            return _text(folder / MEMBERS / f"{name}.txt", texts[name])

        return Committee.restore(document, get, (TunedTail(backbone),))


def _text(path: Path, known: dict[str, Any]) -> Kept:
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != known["sha256"]:
        raise InputError("run", f"{path}, which is missing or damaged", "the file as aimfor wrote it")
    return {"lightgbm": torch.frombuffer(bytearray(content), dtype=torch.uint8)}, known["facts"]


def forget_cells(folder: Path) -> None:
    """Cells are only needed to go on; a finished run has all it needs in its members."""
    shutil.rmtree(folder / CELLS, ignore_errors=True)
