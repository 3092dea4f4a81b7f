"""What `predict` writes for masks and `embed` for pictures."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from ..data import checkpoint
from ..data.features import Work
from ..data.pictures import image_files, pictures_of
from ..errors import InputError
from ..runs.embedding import Vectors, check_suffix, write_vectors
from ..runs.embedding import load_run as load_embedding
from ..runs.masks import load_run as load_masks
from ..runs.sheets import PALETTE
from .progress import features


def write_masks(folder: Path, data: str, out: Path | None) -> None:
    """Writes one PNG of class ids a picture, of the picture's size, into the folder ``out``.

    Raises:
        InputError: No folder to write to, pictures that cannot be read, a damaged run.
    """
    from PIL import Image

    if out is None:
        raise InputError("--out", "nothing", "a folder for the masks", "For instance: --out masks.")
    run, pictures = load_masks(folder), pictures_of(Path(data))  # all are readable, or nothing is written
    colours = np.array(PALETTE, dtype=np.uint8)
    palette = colours[np.arange(256) % len(colours)].reshape(-1).tolist()
    for row, name in enumerate(pictures.names):
        image = Image.fromarray(run.decide(pictures, row))
        image.putpalette(palette)
        path = (out / name).with_suffix(".png")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("--out", f"{out} ({error.strerror})", "a folder that may be written") from None
        content = io.BytesIO()
        image.save(content, "PNG")
        checkpoint.write_bytes(path, content.getvalue())


def write_embedding(folder: Path, data: str, out: Path, quiet: bool) -> list[Path]:
    """Vectors of all pictures of a folder, with their names; classes where they lie in subfolders."""
    check_suffix(out)
    run, path = load_embedding(folder), Path(data)
    pictures = pictures_of(path)
    with features(folder.resolve().parent, quiet) as work:
        vectors = run.vectors(pictures, Work(work.runs, write=False, tell=work.tell, stop=work.stop))
    nested = path.is_dir() and all(len(file.relative_to(path).parts) > 1 for file in image_files(path))
    labels = [Path(name).parts[0] for name in pictures.names] if nested else None
    return write_vectors(out, Vectors(pictures.names, vectors.numpy(), labels))
