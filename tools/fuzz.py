"""Fuzz: random calls over metrics × engines × shapes × dtypes × weights × masks × magnitudes, held to the contract.

    python tools/fuzz.py --calls 50000 --seed 0

The contract of every call: an `InputError` (a sentence), or a finite loss of the right dtype with a finite gradient of
the scores' shape and dtype; an undefined batch has loss 0 and gradient 0; the exact value is NaN or in its bounds. Any
other exception, and any warning that is not ours, is a finding. Each finding prints the number that makes the call
again (``--only NUMBER``).
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import aimfor
from aimfor.errors import ProbabilityWarning
from aimfor.metrics import ENGINES, METRICS, PrecisionAtK, RecallAtK, metric_from_name

MAKERS: list[Callable[[], aimfor.Metric]] = [
    *((lambda name=entry.example: metric_from_name(name)) for entry in METRICS),  # type: ignore[misc]
    lambda: aimfor.AUROC(max_fpr=0.3),
    lambda: aimfor.IoU(average="image"),
    lambda: aimfor.IoU(classes="mean"),
    lambda: aimfor.IoU(average="image", classes="mean"),
    lambda: aimfor.IoU(classes=1),
    lambda: aimfor.NDCG(gain="exponential"),
    lambda: aimfor.FBeta(0.5, threshold=0.5),
    lambda: aimfor.CountRatio((1, 0, 0, 0), (1, 0.3, 0.7, 0)),
    lambda: aimfor.Confusion(lambda tp, fp, fn, tn: tp / (tp + fn) * tn / (tn + fp)),
    lambda: PrecisionAtK(3),
    lambda: RecallAtK(2),
]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
#: Score magnitudes, from subnormal to the largest number of float32.
SCALES = [0.0, 1e-45, 1e-40, 1e-30, 1e-8, 1e-3, 1.0, 1.0, 1.0, 30.0, 1e4, 6e4, 1e20, 1e30, 3e38]


@dataclass
class Call:
    """One random call, made from its number alone."""

    metric: aimfor.Metric
    engine: aimfor.Engine
    arguments: dict[str, Any]

    def __str__(self) -> str:
        shapes = {k: f"{tuple(v.shape)} {v.dtype}" for k, v in self.arguments.items() if isinstance(v, Tensor)}
        return f"{self.metric!r} × {self.engine.name} ({self.engine.extra_repr()}) on {shapes}"


def make_call(number: int, seed: int) -> Call:
    generator = torch.Generator().manual_seed(1_000_003 * seed + number)

    def pick(options: Any) -> Any:
        return options[int(torch.randint(len(options), (), generator=generator))]

    metric = pick(MAKERS)()
    scores, targets = _scores_and_targets(metric, pick, generator)
    scores = _scaled(scores, pick, generator)
    arguments: dict[str, Any] = {"scores": scores, "targets": targets}
    weights = _weights(targets, pick, generator)
    if weights is not None:
        arguments["weights"] = weights
    if pick([True, False, False]):
        arguments["where"] = torch.rand(targets.shape, generator=generator) < pick([0.0, 0.5, 0.9])
    return Call(metric, _engine(metric, arguments, pick), arguments)


def _scores_and_targets(metric: aimfor.Metric, pick: Any, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    layout, n = metric.layout, pick([0, 1, 2, 3, 8, 17, 40])
    classes = getattr(metric, "classes", "binary")
    if layout == "multiclass" or classes != "binary":
        c = pick([2, 3, 5])
        shape: tuple[int, ...] = (n, c) if layout == "multiclass" else (pick([0, 1, 2]), c, 3, pick([1, 4]))
        if layout == "multiclass" and isinstance(metric, aimfor.IoU) and pick([True, False]):
            shape = (pick([0, 1, 2]), c, 3, 2)
        scores = torch.randn(shape, generator=generator, dtype=torch.float64)
        rows = (shape[0], *shape[2:])
        return scores, torch.randint(0, pick([1, c]), rows, generator=generator)
    if layout == "lists":
        shape = pick([(n,), (n, 1), (1, n), (3, n), (0, 4), (2, 7)])
    elif layout == "multilabel":
        shape = (n, pick([1, 3]))
    elif layout == "masks":
        shape = (pick([0, 1, 2]), 3, pick([1, 4]))
    else:
        shape = pick([(n,), (n, 1), (2, n)])
    scores = torch.randn(shape, generator=generator, dtype=torch.float64)
    targets = (torch.rand(shape, generator=generator) < pick([0.0, 0.1, 0.5, 1.0])).long()
    if isinstance(metric, aimfor.NDCG):
        targets = targets * torch.randint(0, pick([2, 4, 30]), shape, generator=generator)
    if targets.numel() and int(targets.max()) > 1:
        return scores, targets
    return scores, targets.to(pick([torch.int64, torch.float32, torch.bool]))


def _scaled(scores: Tensor, pick: Any, generator: torch.Generator) -> Tensor:
    kind, dtype = pick(["plain", "plain", "ties", "one huge", "constant", "mixed", "probabilities"]), pick(DTYPES)
    scale = pick(SCALES)
    if kind == "ties":
        scores = scores.round()
    elif kind == "constant":
        scores = torch.ones_like(scores)
    elif kind == "probabilities":
        return torch.sigmoid(scores).to(dtype)
    if kind == "one huge" and scores.numel():
        scores.view(-1)[0] = 1.0 if scale == 0.0 else scale
    elif kind == "mixed":
        scales = torch.tensor(SCALES, dtype=torch.float64)
        scores = scores * scales[torch.randint(len(SCALES), scores.shape, generator=generator)]
    else:
        scores = scores * scale
    largest = torch.finfo(dtype).max
    return scores.clamp(-largest, largest).to(dtype)


def _weights(targets: Tensor, pick: Any, generator: torch.Generator) -> Tensor | None:
    kind = pick(["none", "none", "whole", "fractions", "zero", "tiny", "huge", "per row"])
    if kind == "none":
        return None
    shape = targets.shape[:1] if kind == "per row" else targets.shape
    if kind in ("whole", "per row"):
        return torch.randint(0, 4, shape, generator=generator).double()
    base = torch.rand(shape, generator=generator, dtype=torch.float64)
    return base * {"fractions": 1.0, "zero": 0.0, "tiny": 1e-30, "huge": 1e30}[kind]


def _engine(metric: aimfor.Metric, arguments: dict[str, Any], pick: Any) -> aimfor.Engine:
    able = [engine for engine in ENGINES if engine.default_constructible and engine().refuses(metric) is None]
    kind = pick(able) if able else None
    if kind is None or (getattr(metric, "group_count", 0) and pick([False] * 9 + [True])):
        classes = max(2, arguments["scores"].shape[-1]) if getattr(metric, "group_count", 2) is None else 2
        rows = arguments["targets"].numel()
        labels = torch.arange(max(rows, classes)) % classes
        labels[:rows] = arguments["targets"].reshape(-1).long()
        if labels.unique().numel() == classes:
            arguments["index"] = torch.arange(rows)
            return aimfor.LagrangianEngine(labels)
        return aimfor.LagrangianEngine(torch.arange(classes))
    options: dict[str, list[dict[str, Any]]] = {
        "sorted": [
            {},
            {"surrogate": "hinge"},
            {"surrogate": "ramp", "margin": 0.1},
            {"surrogate": "logistic"},
            {"bank": 8},
        ],
        "direct": [{}, {"epsilon": 1.0}, {"epsilon": 1e-3, "sign": 1}, {"sign": "both"}, {"mode": "hinge"}],
        "lp": [{}, {"margin": 0.1}],
        "smooth": [{}, {"temperature": 0.1}, {"relative": True, "temperature": 0.3}, {"anchor": 0.5}],
        "rates": [{}, {"proxy": "hinge"}, {"proxy": "sigmoid"}],
    }
    return kind(**pick(options.get(kind.name, [{}])))


REFUSED = "refused"


def finding(call: Call) -> str | None:
    """What is wrong with this call's answer, `REFUSED` for a sentence, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        warnings.simplefilter("ignore", ProbabilityWarning)
        try:
            return _wrong(call)
        except aimfor.AimforError as error:
            return REFUSED if str(error).endswith(".") else f"an error that is no sentence: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def _wrong(call: Call) -> str | None:
    arguments = dict(call.arguments)
    scores = arguments.pop("scores").clone().requires_grad_()
    output = aimfor.MetricLoss(call.metric, call.engine).detailed(scores, **arguments)
    loss = output.loss
    (gradient,) = torch.autograd.grad(loss, scores)
    expected = torch.float64 if scores.dtype == torch.float64 else torch.float32
    if loss.dtype != expected or loss.shape != ():
        return f"the loss is {loss.dtype} of shape {tuple(loss.shape)}"
    if not bool(torch.isfinite(loss)):
        return f"the loss is {loss.item()}"
    if not bool(torch.isfinite(gradient).all()):
        return "a gradient that is not finite"
    if output.status is aimfor.Status.undefined_batch and (loss != 0 or bool(gradient.any())):
        return f"undefined, yet loss {loss.item()} or a gradient"
    arguments.pop("index", None)
    value = float(call.metric.value(scores.detach(), **arguments))
    return f"the value is {value}" if not (value != value or call.metric.lowest - 1e-9 <= value <= 1 + 1e-9) else None


def run(calls: int, seed: int, first: int = 0) -> tuple[list[str], collections.Counter[str]]:
    """Findings, and how many calls each engine got; "refused" is how many of them all were answered by a sentence."""
    findings, answered = [], collections.Counter[str]()
    for number in range(first, first + calls):
        call = make_call(number, seed)
        answered[call.engine.name] += 1
        wrong = finding(call)
        if wrong == REFUSED:
            answered[REFUSED] += 1
        elif wrong is not None:
            findings.append(f"{number}: {call}: {wrong}")
    return findings, answered


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one call by its number, with the traceback")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only is not None:
        call = make_call(options.only, options.seed)
        print(call, call.arguments, sep="\n")
        print(_wrong(call))
        return 0
    start = time.perf_counter()
    findings, answered = run(options.calls, options.seed)
    print(*findings, sep="\n")
    counted = ", ".join(f"{name} {count}" for name, count in sorted(answered.items()))
    print(f"{options.calls} calls ({counted}), {len(findings)} findings, {time.perf_counter() - start:.0f} s")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
