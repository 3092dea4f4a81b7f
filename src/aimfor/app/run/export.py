"""`aimfor export`: the network alone, by torch.export or as ONNX."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.committee import Committee
from .folder import load_run


def export(folder: Path, out: Path | None, onnx: bool = False, trust: str | None = None) -> Path:
    """Writes the network with a free batch size and returns the path.

    The input is what the run's encoder gives (its description is in config.json), float32; the output are raw scores.

    Raises:
        InputError: No finished run, a model that cannot be exported, or ONNX packages missing.
    """
    run = load_run(folder, trust)
    if isinstance(run.model, Committee):
        raise InputError(
            "run",
            f"{folder}, which holds a committee",
            "a run of one network",
            "Train one with --recipe balanced_cross_entropy, or use aimfor predict.",
        )
    path = out or folder / ("model.onnx" if onnx else "model.pt2")
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


def _onnx(model: torch.nn.Module, example: torch.Tensor, path: Path) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as missing:
        remedy = "pip install 'aimfor[export]'"
        raise InputError("--onnx", f"no package {missing.name}", "onnx and onnxscript", f"Install: {remedy}.") from None
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
