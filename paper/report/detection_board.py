"""Song's Table 2 in small: the report of `song_detection` and its claim's judge."""

from __future__ import annotations

import statistics

from ..claims.judging import Entries, Judgement, against_all, listed
from .pages import report_of
from .scoreboard import markdown
from .statistics import paired

TITLE = "Detection in VOC 2012, windows and features, one layer per class (Song, Table 2)"
#: As printed, in percent.
PAPER = {"softmax": 47.0, "logistic": 45.6, "direct AP": 48.5}
SETTING = """900 pictures of the official train list and 700 of the val list (longest side 224), some 400 windows of
fast selective search each, all 20 classes; means of two feature maps of EfficientNet-Lite0 (frozen, pictures doubled)
over each window and its surroundings, 256 components, and eight numbers of its size and place; linear layers, 800
steps of Adam, batches of 2,048 windows, a quarter of them on objects. Learning rate (two) and ε (three) of every method
chosen on 300 of the training pictures. Suppression at 0.3, VOC's rule for boxes (equal to pycocotools under COCO's:
`bench_boxes.py`). The paper fine-tunes AlexNet on 5,717 pictures with 2,000 windows each and pools no means: its level
is out of reach here. Differences from softmax are paired over classes (means over seeds)."""


def means(entries: Entries, method: str) -> list[float]:
    """Average precision of each class, the mean over seeds."""
    by_seed = [entry["result"]["classes"] for entry in entries if entry["cell"]["method"] == method]
    return [statistics.fmean(values) for values in zip(*by_seed, strict=True)]


def methods(entries: Entries) -> list[str]:
    return list(dict.fromkeys(str(entry["cell"]["method"]) for entry in entries))


def lines(entries: Entries) -> list[str]:
    base, rows = means(entries, "softmax"), []
    for method in methods(entries):
        mine = means(entries, method)
        each = [entry for entry in entries if entry["cell"]["method"] == method]
        rows.append(
            (
                method,
                f"{PAPER[method]:.1f}" if method in PAPER else "",
                f"{100 * statistics.fmean(mine):.1f}",
                "" if method == "softmax" else str(paired(mine, base)),
                str(each[0]["result"]["setting"]),
                str(len(each)),
            )
        )
    head = ("method", "mean AP, the paper's", "mean AP, ours", "− softmax", "chosen", "seeds")
    return [SETTING, "", markdown(head, rows), ""]


report = report_of(TITLE, lines)


def table2(entries: Entries) -> Judgement:
    """Direct AP against softmax and logistic, paired over classes: the paper has one number for each."""
    mine = means(entries, "direct AP")
    gaps = {other: paired(mine, means(entries, other)) for other in ("softmax", "logistic", "weighted")}
    after = paired(means(entries, "direct AP after softmax"), means(entries, "softmax"))
    text = f"direct AP {statistics.fmean(mine):.3f}: {listed(gaps)}"
    seeds = sum(entry["cell"]["method"] == "direct AP" for entry in entries)
    text += f"; after softmax, − softmax {after} (20 classes, {seeds} seeds)"
    return against_all(text, [gaps["softmax"], gaps["logistic"]], seeds)
