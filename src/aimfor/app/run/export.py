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
from ...fitting.models import scores_of
from .finished import Run, load_run


def export(folder: Path, out: Path | None, onnx: bool = False, trust: str | None = None) -> Path:
    """Writes the model with a free number of rows and returns the path.

    With ``onnx`` a run on a table takes raw columns and gives probability and decision: a committee, or a built-in
    network. Any other network takes what the run's encoder gives (its description is in config.json), float32, and
    gives raw scores.

    Raises:
        InputError: No finished run, a model that cannot be exported, or ONNX packages missing.
    """
    run = load_run(folder, trust)
    path = out or folder / ("model.onnx" if onnx else "model.pt2")
    if onnx and _whole(run):
        checkpoint.write_bytes(path, _from_columns(run))
        return path
    if isinstance(run.model, Committee):
        remedy = "Use --onnx: one file from raw columns to probability and decision."
        raise InputError("run", f"{folder}, which holds a committee", "a run of one network", remedy)
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


def _whole(run: Run) -> bool:
    """Whether the file can begin with the columns: all committees, and plain networks on tables."""
    if isinstance(run.model, Committee):
        return True
    _need("onnx")
    from ..onnx.network import is_plain

    return isinstance(run.encoder, TableEncoder) and is_plain(run.model)


def _from_columns(run: Run) -> bytes:
    """The file, which has answered as the run does."""
    _need("onnx", "onnxruntime")
    from ..onnx import Reading, run_model
    from ..onnx.check import check

    if run.query is not None:
        remedy = "Use aimfor.load(RUN).scores(frame)."
        raise InputError("run", f"{run.folder}, a committee of ranked lists", "one with probabilities", remedy)
    encoder, model, labels = run.encoder, run.model, run.labels
    if not isinstance(encoder, TableEncoder):
        raise InputError("run", f"{run.folder}, a committee for pictures", "a committee for a table")
    reading = Reading(run.metric, labels.classes, labels.binary, run.threshold, run.calibration or (1.0, 0.0))
    content: bytes = run_model(encoder, model, reading).SerializeToString()

    def scores(x: torch.Tensor) -> torch.Tensor:
        return model.scores(x) if isinstance(model, Committee) else scores_of(model, x, labels.outputs)

    check(content, encoder, scores, reading)
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
