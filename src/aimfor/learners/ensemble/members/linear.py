"""The linear member: logistic regression on the columns and on their pieces, at several strengths of its penalty.

A column with many values is cut at quantiles of the training rows into pieces, and each piece says how far into it a
value reaches, from 0 to 1 (a piecewise-linear encoding, which the network learns from too). A weighted sum of pieces is
a bent line, so even a linear model can follow a column that helps in the middle and harms at both ends; and it still
has one optimum, no seed, and coefficients a reader can follow.

References:
    Gorishniy, Rubachev, Babenko, On embeddings for numerical features in tabular deep learning, 2022.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import torch
from torch import Tensor

from ....data.components import in_blocks
from ...networks.loop import end_if
from .base import Fitted, Job, Member, over, under

#: Standardised values are held within this: one stray value must not dominate.
CLIP = 10.0
PIECES = 6
#: Pieces weigh less than the columns themselves, so that a line is bent only where rows ask for it.
PIECE_SCALE = 0.5
#: Beyond so many columns there are no pieces: time grows with them, and many columns bend enough by being many.
PIECES_AT_MOST = 200


class Design:
    """The matrix of any rows; all it learned from training rows is in `tensors`.

    Example:
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> Design.fit(x)(x).shape
        torch.Size([100, 7])
    """

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors

    @classmethod
    def fit(cls, x: Tensor, pieces: int = PIECES) -> Design:
        """Scales by the training rows ``(n, d)``; a column that is constant there becomes zeros."""
        clipped = x.double().clamp(-CLIP, CLIP)
        tensors = {"mean": clipped.mean(0), "scale": _scale(clipped)}
        of_columns = column_edges(x, pieces) if x.shape[1] <= PIECES_AT_MOST else []
        edges = [(column, limits) for column, limits in enumerate(of_columns) if len(limits) > 2]
        if edges:
            tensors["from"] = torch.tensor([column for column, limits in edges for _ in limits[1:]])
            tensors["left"] = torch.cat([limits[:-1] for _, limits in edges]).double()
            tensors["right"] = torch.cat([limits[1:] for _, limits in edges]).double()
            reach = cls(tensors)._reach(x)
            tensors |= {"piece_mean": reach.mean(0), "piece_scale": _scale(reach) / PIECE_SCALE}
        return cls(tensors)

    @classmethod
    def as_it_is(cls, x: Tensor) -> Design:
        """Columns whose sizes mean something, such as `Components`: centred, and all divided by one number."""
        clipped = x.double().clamp(-CLIP, CLIP)
        scale = _scale(clipped)
        moving = scale[scale.isfinite()]
        common = moving.max() / 2 if len(moving) else scale.new_tensor(1.0)
        return cls({"mean": clipped.mean(0), "scale": torch.where(scale.isfinite(), common, scale)})

    @property
    def width(self) -> int:
        return len(self.tensors["mean"]) + len(self.tensors.get("from", ()))

    def __call__(self, x: Tensor) -> Tensor:
        """``(n, width)``, float64."""
        t = self.tensors
        columns = (x.double().clamp(-CLIP, CLIP) - t["mean"]) / t["scale"]
        if "from" in t:
            columns = torch.cat((columns, (self._reach(x) - t["piece_mean"]) / t["piece_scale"]), 1)
        return columns

    def _reach(self, x: Tensor) -> Tensor:
        """How far into each piece a value reaches, from 0 to 1."""
        t = self.tensors
        return ((x.double()[:, t["from"]] - t["left"]) / (t["right"] - t["left"])).clamp(0.0, 1.0)


def column_edges(x: Tensor, pieces: int) -> list[Tensor]:
    """Limits of the pieces of each column: quantiles of the training rows, each once. Two limits mean no pieces."""
    pieces = min(pieces, max(1, len(x) // 8))
    quantiles = (torch.linspace(0.0, 1.0, pieces + 1, dtype=torch.float64) * (len(x) - 1)).round().long()
    return [column.unique() for column in x.sort(0).values[quantiles].t()]


def _scale(columns: Tensor) -> Tensor:
    """Standard deviations; infinite for a constant column, which then says nothing."""
    deviation = columns.std(0, correction=0)
    return torch.where(deviation > 1e-9, deviation, torch.inf)


#: Inverse strengths of the penalty, from strong to weak: the checkpoints.
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)


class FittedLinear(Fitted):
    """Coefficients ``(checkpoints, outputs or 1, features)`` and intercepts."""

    def __init__(self, design: Design, coefficients: Tensor, intercepts: Tensor, outputs: int) -> None:
        self.design, self.coefficients, self.intercepts, self.outputs = design, coefficients, intercepts, outputs

    @property
    def checkpoints(self) -> int:
        return len(self.coefficients)

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        slopes, offset = self.coefficients[checkpoint].t(), self.intercepts[checkpoint]
        scores = in_blocks(lambda block: self.design(block) @ slopes + offset, x)
        if self.outputs == 1:
            return scores.squeeze(1)
        return torch.cat((-scores / 2, scores / 2), 1) if scores.shape[1] == 1 else scores

    def at(self, checkpoint: int) -> Self:
        coefficients, intercepts = self.coefficients[checkpoint, None], self.intercepts[checkpoint, None]
        return type(self)(self.design, coefficients, intercepts, self.outputs)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        own = {"coefficients": self.coefficients, "intercepts": self.intercepts}
        return own | over("design/", self.design.tensors), {"outputs": self.outputs}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        design, outputs = Design(under("design/", tensors)), int(facts["outputs"])
        return cls(design, tensors["coefficients"], tensors["intercepts"], outputs)


class Linear(Member):
    """Logistic regression with bent lines."""

    name = "linear"
    title = "linear"
    unit = "penalties, from strong to weak"
    fitted = FittedLinear

    def __init__(self, strengths: tuple[float, ...] = STRENGTHS, iterations: int = 200) -> None:
        self.strengths, self.iterations = strengths, iterations

    def design(self, x: Tensor) -> Design:
        return Design.fit(x)

    def fit(self, job: Job) -> FittedLinear:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        design = self.design(job.train.x)
        x, y = design(job.train.x).numpy(), job.train.y.numpy()
        mass = None if job.train.weights is None else job.train.weights.double().numpy()
        model = LogisticRegression(max_iter=self.iterations, warm_start=True)
        coefficients, intercepts = [], []
        for strength in self.strengths:
            end_if(job.stop())
            with warnings.catch_warnings():
                # A path's next strength goes on from here, and the held-out rows choose: unfinished is good enough.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.set_params(C=strength).fit(x, y, sample_weight=mass)
            coefficients.append(torch.from_numpy(model.coef_.copy()))
            intercepts.append(torch.from_numpy(model.intercept_.copy()))
        return FittedLinear(design, torch.stack(coefficients), torch.stack(intercepts), job.outputs)
