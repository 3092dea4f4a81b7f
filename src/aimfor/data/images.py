"""What counts as a picture's file."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def image_files(folder: Path) -> list[Path]:
    """All images below the folder, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
