"""An ensemble in a run folder: committee.json, one file a member and fold; trees as LightGBM's own text. No pickle."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch

from ..data import checkpoint
from ..errors import InputError
from ..learners.ensemble import Ensemble
from ..learners.ensemble.members import TunedTail
from ..learners.ensemble.store import Kept

ENSEMBLE, MEMBERS = "committee.json", "members"


def save_ensemble(folder: Path, ensemble: Ensemble) -> None:
    """Members first, committee.json last: a folder that has it has everything."""
    (folder / MEMBERS).mkdir(exist_ok=True)
    texts: dict[str, Any] = {}
    for name, (tensors, facts) in ensemble.parts():
        if "lightgbm" in tensors:
            content = tensors["lightgbm"].numpy().tobytes()
            checkpoint.write_bytes(folder / MEMBERS / f"{name}.txt", content)
            texts[name] = {"facts": facts, "sha256": hashlib.sha256(content).hexdigest()}
        else:
            checkpoint.save(folder / MEMBERS / f"{name}.safetensors", tensors, facts)
    checkpoint.write_json(folder / ENSEMBLE, {**ensemble.facts, "texts": texts})


def load_ensemble(folder: Path, backbone: str = "") -> Ensemble:
    """The ensemble; ``backbone`` is what a fine-tuned member was pretrained as, which its files do not name.

    Raises `InputError` naming the file that is missing or damaged."""
    document = checkpoint.read_json(folder / ENSEMBLE)
    with checkpoint.reading(folder / ENSEMBLE):
        texts = document["texts"]

        def get(name: str) -> Kept:
            if name not in texts:
                return checkpoint.load(folder / MEMBERS / f"{name}.safetensors")
            return _text(folder / MEMBERS / f"{name}.txt", texts[name])

        return Ensemble.restore(document, get, (TunedTail(backbone),))


def _text(path: Path, known: dict[str, Any]) -> Kept:
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != known["sha256"]:
        raise InputError("run", f"{path}, which is missing or damaged", "the file as aimfor wrote it")
    return {"lightgbm": torch.frombuffer(bytearray(content), dtype=torch.uint8)}, known["facts"]
