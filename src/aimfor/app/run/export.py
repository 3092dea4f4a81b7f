"""`aimfor export`: a committee as one ONNX file, or one network by torch.export or as ONNX."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import torch

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.columns import TableEncoder
from ...fitting.committee import Committee
from .folder import Run, load_run


def export(folder: Path, out: Path | None, onnx: bool = False, trust: str | None = None) -> Path:
    """Writes the model with a free number of rows and returns the path.

    A committee takes raw columns and gives probability and decision (ONNX only). One network takes what the run's
    encoder gives (its description is in config.json), float32, and gives raw scores.

    Raises:
        InputError: No finished run, a model that cannot be exported, or ONNX packages missing.
    """
    run = load_run(folder, trust)
    path = out or folder / ("model.onnx" if onnx else "model.pt2")
    if isinstance(run.model, Committee):
        if not onnx:
            remedy = "Use --onnx: one file from raw columns to probability and decision."
            raise InputError("run", f"{folder}, which holds a committee", "a run of one network", remedy)
        checkpoint.write_bytes(path, _committee(run, run.model))
        return path
    example = torch.zeros(2, *run.encoder.shape)
    rows = torch.export.Dim("rows", min=1)
    part = path.with_name(f".{path.name}.part{path.suffix}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # exporters warn about their own internals
            if onnx:
                _onnx(run.model, example, part)
            else:
                program = torch.export.export(run.model, (example,), dynamic_shapes=({0: rows},))
                torch.export.save(program, part)
        content = part.read_bytes()
    except OSError as error:
        raise InputError("--out", f"{path} ({error.strerror})", "a file that may be written") from None
    finally:
        part.unlink(missing_ok=True)
    checkpoint.write_bytes(path, content)
    return path


def _committee(run: Run, committee: Committee) -> bytes:
    """The file, which has answered as the committee does."""
    _need("onnx", "onnxruntime")
    from ..onnx.check import check
    from ..onnx.committee import committee_model

    if run.query is not None:
        remedy = "Use aimfor.load(RUN).scores(frame)."
        raise InputError("run", f"{run.folder}, a committee of ranked lists", "one with probabilities", remedy)
    if not isinstance(run.encoder, TableEncoder):
        raise InputError("run", f"{run.folder}, a committee for pictures", "a committee for a table")
    if committee.objective.ranked:
        raise InputError("run", f"{run.folder}, a committee for ranked lists", "one that decides, row by row")
    parts = (run.encoder, committee, run.labels.classes, run.threshold)
    content: bytes = committee_model(*parts).SerializeToString()
    check(content, *parts)
    return content


def _need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            remedy = "Install: pip install 'aimfor[export]'."
            raise InputError("--onnx", f"no package {package}", " and ".join(packages), remedy)


def _onnx(model: torch.nn.Module, example: torch.Tensor, path: Path) -> None:
    _need("onnx", "onnxscript")
    torch.onnx.export(
        model,
        (example,),
        str(path),
        dynamo=True,
        input_names=["rows"],
        output_names=["scores"],
        dynamic_shapes=({0: torch.export.Dim("rows", min=1)},),
        external_data=False,
        verbose=False,
    )
