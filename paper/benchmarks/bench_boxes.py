"""Average precision of boxes on VOC 2012's val part beside pycocotools: every class at every overlap."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from common import record

from paper.detection import data
from paper.detection.average_precision import Detected, Truth, box_ap
from paper.experiment import Options, data_folder, find_data


def moved(known: dict[int, list[dict[str, Any]]], pictures: dict[int, tuple[str, int, int]]) -> list[dict[str, Any]]:
    """Detections with every fault: true boxes moved, doubled, missed and called another class; scores with ties."""
    random, found = np.random.default_rng(0), []
    for number, (_, width, height) in pictures.items():
        for one in known[number]:
            for _ in range(random.integers(0, 4)):
                box = np.clip(one["box"] + random.normal(0, 8, 4), 0, [width, height, width, height])
                kind = one["category_id"] if random.random() < 0.8 else int(random.integers(1, 21))
                score = float(np.round(random.random(), 2))
                if (box[2:] - box[:2]).min() > 2:
                    corner = [*box[:2], *(box[2:] - box[:2])]
                    found.append({"image_id": number, "category_id": kind, "bbox": corner, "score": score})
    return found


def main() -> None:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    path = data_folder(Options(data=find_data(None)), "voc2012_detection") / "voc2012_detection" / "val.json"
    pictures, known, names = data.truth(Path(path))
    found = moved(known, pictures)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(path))
        judge = COCOeval(truth, truth.loadRes(json.loads(json.dumps(found))), "bbox")
        judge.evaluate()
        judge.accumulate()
    mine, worst = data.detections(found, pictures, names), {}
    for place, overlap in enumerate(judge.params.iouThrs):
        gaps = []
        for number in range(len(names)):
            theirs = judge.eval["precision"][place, :, number, 0, 2].mean()
            gaps.append(abs(ours(known, mine[number], judge.params.imgIds, number, float(overlap)) - theirs))
        worst[float(overlap)] = max(gaps)
    rows = [
        {
            "pictures": len(pictures),
            "true boxes": sum(map(len, known.values())),
            "detections": len(found),
            "classes × overlaps": len(names) * len(worst),
            "largest difference from pycocotools": f"{max(worst.values()):.1e}",
        }
    ]
    record("boxes", "Average precision of boxes, COCO's rule", "python paper/benchmarks/bench_boxes.py", rows)


def ours(known: Any, found: dict[int, Detected], order: list[int], number: int, overlap: float) -> float:
    """Of one class, pictures in pycocotools' order."""
    real = {picture: [one["box"] for one in known[picture] if one["class"] == number] for picture in order}
    truth = [Truth(np.array(some).reshape(-1, 4), np.zeros(len(some), dtype=bool)) for some in real.values()]
    return box_ap(truth, [found[picture] for picture in order], "coco", overlap)


if __name__ == "__main__":
    main()
