"""Pictures as they come: sizes, modes, damage, and the three layouts that folders and tables of them have."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aimfor.data import pictures as reading
from aimfor.data.labelled_pictures import read_pictures
from aimfor.data.load import load
from aimfor.data.pictures import Pictures, decoded
from aimfor.errors import InputError
from pictures_samples import class_folders, picture


def saved(image: Image.Image, kind: str, **how: object) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **how)  # type: ignore[arg-type]
    return content.getvalue()


def test_exif_rotation_is_undone() -> None:
    pixels = np.zeros((8, 16, 3), dtype=np.uint8)
    pixels[:, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: to be shown, the picture is turned by 90°
    content = saved(Image.fromarray(pixels), "PNG", exif=exif)
    found = np.asarray(decoded(content, "a.png"))
    assert found.shape == (16, 8, 3)
    assert (found[:8] == 255).all()
    assert (found[8:] == 0).all()


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (Image.new("L", (4, 4), 100), "PNG"),
        (Image.new("CMYK", (4, 4), (0, 0, 0, 155)), "TIFF"),
        (Image.fromarray(np.full((4, 4), 100 * 257 + 100, dtype=np.uint16)), "PNG"),
        (Image.new("RGBA", (4, 4), (100, 100, 100, 255)), "PNG"),
        (Image.new("P", (4, 4), 0), "GIF"),
    ],
    ids=["gray", "CMYK", "16 bits", "alpha", "palette"],
)
def test_every_mode_becomes_rgb_of_the_same_brightness(image: Image.Image, kind: str) -> None:
    if image.mode == "P":
        image.putpalette([100, 100, 100] * 256)
    found = np.asarray(decoded(saved(image, kind), "a"))
    assert found.shape == (4, 4, 3)
    assert np.abs(found.astype(int) - 100).max() <= 1


def test_of_an_animation_the_first_frame_is_taken() -> None:
    frames = [Image.new("RGB", (4, 4), (value, 0, 0)) for value in (250, 10)]
    content = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert np.asarray(decoded(content, "a.gif"))[0, 0, 0] > 200


def test_what_cannot_be_read_is_named_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved(picture(0, 0, side=64), "PNG")
    with pytest.raises(InputError, match=r"a\.png, which is empty"):
        decoded(b"", "a.png")
    for damaged in (whole[: len(whole) // 2], b"not a picture at all"):
        with pytest.raises(InputError, match=r"a\.png, which is not a readable image"):
            decoded(damaged, "a.png")
    with pytest.raises(InputError, match="floating-point"):
        decoded(saved(Image.new("F", (2, 2), 0.5), "TIFF"), "a.tif")
    monkeypatch.setattr(reading, "MOST_PIXELS", 1000)
    with pytest.raises(InputError, match="64 × 64 pixels"):
        decoded(whole, "a.png")


def test_a_decompression_bomb_is_refused_before_it_is_unpacked() -> None:
    """A PNG whose head claims 40,000 × 40,000 pixels in a few bytes."""
    whole = bytearray(saved(Image.new("L", (1, 1)), "PNG"))
    import struct
    import zlib

    head = b"IHDR" + struct.pack(">IIBBBBB", 40_000, 40_000, 8, 0, 0, 0, 0)
    whole[12 : 12 + 17] = head
    whole[29:33] = struct.pack(">I", zlib.crc32(head))
    with pytest.raises(InputError, match="million"):
        decoded(bytes(whole), "bomb.png")


def test_an_array_and_its_files_are_the_same_pictures(tmp_path: Path) -> None:
    array = np.stack([np.asarray(picture(0, seed)) for seed in range(3)])
    files = []
    for number, one in enumerate(array):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(one).save(files[-1])
    names = ["a", "b", "c"]
    by_file, by_array = Pictures(names, files), Pictures(names, array=array)
    for row in range(3):
        np.testing.assert_array_equal(by_file.square(row, 24), array[row])
        np.testing.assert_array_equal(by_array.square(row, 16), by_file.square(row, 16))
    np.testing.assert_array_equal(by_array.take([2]).square(0, 24), array[2])
    assert by_file.take([1]).names == ["b"]


# ---------------------------------------------------------------- layouts


def parts(folder: Path) -> Path:
    class_folders(folder / "train", 12)
    class_folders(folder / "val", 14)
    for path in list((folder / "val").rglob("*.png")):
        if int(path.stem) < 12:
            path.unlink()  # the first twelve are the same pictures as in train
    for seed in range(20, 26):
        place = folder / "test" / ("cat", "dog")[seed % 2]
        place.mkdir(parents=True, exist_ok=True)
        picture(seed % 2, seed).save(place / f"{seed}.png")
    return folder


def table(folder: Path) -> Path:
    class_folders(folder / "files", 12)
    rows = [f"files/{('cat', 'dog')[seed % 2]}/{seed}.png,{('cat', 'dog')[seed % 2]}" for seed in range(12)]
    (folder / "photos.csv").write_text("picture,kind\n" + "\n".join(rows) + "\n")
    return folder / "photos.csv"


@pytest.mark.parametrize(
    ("make", "target", "classes"),
    [
        (class_folders, None, {"cat", "dog"}),
        (parts, None, {"cat", "dog"}),
        (table, "kind", {"cat", "dog"}),
    ],
    ids=["class folders", "train and test", "table"],
)
def test_three_layouts_are_read(make: object, target: str | None, classes: set[str], tmp_path: Path) -> None:
    path = make(tmp_path / "photos")  # type: ignore[operator]
    found = read_pictures(path, target)
    assert found.labels is not None
    assert set(found.labels) == classes
    assert len(found) == len(found.labels) == len(set(found.hashes or []))
    if make is parts:
        assert found.test is not None
        assert [name for name, one in zip(found.as_pictures().names, found.test, strict=True) if one] == [
            name for name in found.as_pictures().names if name.startswith("test/")
        ]
        assert int(found.test.sum()) == 6


def test_several_labels_from_a_table(tmp_path: Path) -> None:
    path = table(tmp_path / "photos")
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join(
            [lines[0] + ",dark,old"] + [f"{line},{n % 2},{'' if n == 3 else 'no'}" for n, line in enumerate(lines[1:])]
        )
    )
    found = read_pictures(path, "dark,old")
    assert found.label_names == ["dark", "old"]
    assert found.labels is not None
    assert found.labels[:4].tolist() == [["0", "0"], ["1", "0"], ["0", "0"], ["1", None]]
    with pytest.raises(InputError, match="1 or 0"):
        read_pictures(path, "dark,kind")
    with pytest.raises(InputError, match="'darc'"):
        read_pictures(path, "darc,old")


def test_a_path_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    picture(0, 1).save(tmp_path / "secret.png")
    path = table(tmp_path / "photos")
    for bad in ("../secret.png", str(tmp_path / "secret.png")):
        path.write_text(f"picture,kind\n{bad},cat\n")
        with pytest.raises(InputError, match="inside photos"):
            read_pictures(path, "kind")
    (tmp_path / "photos" / "link.png").symlink_to(tmp_path / "secret.png")
    path.write_text("picture,kind\nlink.png,cat\n")
    with pytest.raises(InputError, match="inside photos"):
        read_pictures(path, "kind")
    path.write_text("picture,kind\nnowhere.png,cat\n")
    with pytest.raises(InputError, match=r"nowhere\.png, which is not in photos"):
        read_pictures(path, "kind")


def test_the_same_picture_in_two_classes_is_named_and_refused(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "photos", 8)
    (folder / "dog" / "copy.png").write_bytes((folder / "cat" / "0.png").read_bytes())
    with pytest.raises(InputError, match=r"cat/0\.png and dog/copy\.png, the same picture as 'cat' and 'dog'"):
        read_pictures(folder, None)


def test_a_copy_in_training_and_test_stays_in_test_only(tmp_path: Path) -> None:
    folder = parts(tmp_path / "photos")
    (folder / "test" / "cat" / "copy.png").write_bytes((folder / "train" / "cat" / "0.png").read_bytes())
    found = read_pictures(folder, None)
    assert "test/cat/copy.png" in found.as_pictures().names
    assert "train/cat/0.png" not in found.as_pictures().names
    assert any("twice" in note and "train/cat/0.png" in note for note in found.notes)


def test_damaged_files_are_skipped_only_on_request_and_named(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "photos", 8)
    (folder / "cat" / "empty.png").write_bytes(b"")
    (folder / "dog" / "cut.jpg").write_bytes((folder / "dog" / "1.png").read_bytes()[:60])
    with pytest.raises(InputError, match=r"cat/empty\.png, which is empty.*--skip-corrupt"):
        read_pictures(folder, None)
    found = read_pictures(folder, None, skip_corrupt=True)
    assert len(found) == 8
    assert found.labels is not None
    assert len(found.labels) == len(found.hashes or []) == 8
    assert "empty.png" in found.notes[0]
    assert "cut.jpg" in found.notes[0]


def test_names_without_a_class_are_refused(tmp_path: Path) -> None:
    for seed in range(6):
        picture(0, seed).save(tmp_path / f"IMG_{seed}.png")
    with pytest.raises(InputError, match="one subfolder of images per class"):
        read_pictures(tmp_path, None)
    assert len(read_pictures(tmp_path, None, labelled=False)) == 6


def test_pixels_in_memory_are_read_with_the_same_care(tmp_path: Path) -> None:
    """The small network's pixels come from the same reader: layouts, copies, damage, sizes."""
    folder = parts(tmp_path / "photos")
    source = load(str(folder), None)
    assert source.pictures is None
    assert source.images is not None
    assert source.images.shape == (len(source), 24, 24, 3)
    assert source.test is not None
    assert source.test.sum() == sum("test/" in name for name in source.row_names or [])
    row = (source.row_names or []).index("train/cat/0.png")
    np.testing.assert_array_equal(source.images[row], np.asarray(Image.open(folder / "train" / "cat" / "0.png")))
    assert load(str(folder), None, image_size=8).images.shape[1:] == (8, 8, 3)  # type: ignore[union-attr]
    assert len(load(str(folder / "train" / "cat" / "0.png"), None, labelled=False)) == 1
    (folder / "train" / "dog" / "cut.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"cut\.png.*--skip-corrupt"):
        load(str(folder), None)
    assert len(load(str(folder), None, skip_corrupt=True)) == len(source)
    (folder / "train" / "dog" / "cut.png").write_bytes((folder / "train" / "cat" / "0.png").read_bytes())
    with pytest.raises(InputError, match="the same picture as 'cat' and 'dog'"):
        load(str(folder), None)
