"""Published image formats, written here byte by byte as their pages describe them, and read back."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from aimfor.errors import InputError
from paper.data import images


def test_cifar_batches_are_read_by_channel_then_row(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    flat = pictures.transpose(0, 3, 1, 2).reshape(6, -1)
    for number in range(1, 6):
        content = {"data": flat[number : number + 1], "labels": [number]}
        (folder / f"data_batch_{number}").write_bytes(pickle.dumps(content, protocol=2))
    (folder / "test_batch").write_bytes(pickle.dumps({"data": flat[:1], "labels": [9]}))
    found = images.published(tmp_path, "cifar10", "train")
    assert found is not None
    assert np.array_equal(found[0], pictures[1:])
    assert found[1].tolist() == [1, 2, 3, 4, 5]
    x, y, _, test_y = images.load(tmp_path, "cifar10")
    assert torch.equal(((x + 1) * 127.5).round().to(torch.uint8), torch.from_numpy(pictures[1:]).permute(0, 3, 1, 2))
    assert (y.tolist(), test_y.tolist()) == ([1, 2, 3, 4, 5], [9])


def test_cifar100_takes_the_fine_labels(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python").mkdir()
    content = {"data": np.zeros((2, 3072), dtype=np.uint8), "fine_labels": [7, 99], "coarse_labels": [1, 2]}
    (tmp_path / "cifar-100-python" / "train").write_bytes(pickle.dumps(content))
    found = images.published(tmp_path, "cifar100", "train")
    assert found is not None
    assert found[1].tolist() == [7, 99]


def test_pickles_that_run_code_are_refused(tmp_path: Path) -> None:
    class Nasty:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("ran",)

    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": Nasty(), "labels": []}))
    with pytest.raises(InputError, match="wants builtins"):
        images.cifar_batches([path], "labels")
    path.write_bytes(pickle.dumps({"data": np.zeros((1, 3072), dtype=np.uint8)}))
    with pytest.raises(InputError, match="without 'data' and 'labels'"):
        images.cifar_batches([path], "labels")


def test_stl10_is_stored_by_column_and_counts_from_one(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 96, 96, 3), dtype=np.uint8)
    (tmp_path / "X").write_bytes(pictures.transpose(0, 3, 2, 1).tobytes())
    (tmp_path / "y").write_bytes(bytes([1, 10]))
    found = images.stl10_binary(tmp_path / "X", tmp_path / "y")
    assert np.array_equal(found[0], pictures)
    assert found[1].tolist() == [0, 9]
    (tmp_path / "X").write_bytes(b"123")
    with pytest.raises(InputError, match="a multiple of"):
        images.stl10_binary(tmp_path / "X", tmp_path / "y")


def test_idx_files_plain_and_gzipped(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    raw = b"\0\0\x08\x03" + np.array(values.shape, dtype=">i4").tobytes() + values.tobytes()
    (tmp_path / "plain").write_bytes(raw)
    (tmp_path / "small.gz").write_bytes(gzip.compress(raw))
    for name in ("plain", "small.gz"):
        assert np.array_equal(images.idx(tmp_path / name), values)
    for broken in (b"no", raw[:-1]):
        (tmp_path / "broken").write_bytes(broken)
        with pytest.raises(InputError, match="broken"):
            images.idx(tmp_path / "broken")


def test_a_set_in_neither_form_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without stl10"):
        images.load(tmp_path, "stl10")
