"""The linear member: logistic regression on the columns and on their pieces, at several strengths of its penalty.

With the pieces it is a sum of one bent line per column. That is what a straight line lacks most, and it still has one
optimum, no seed, and coefficients a reader can follow.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import torch
from torch import Tensor

from ....data.components import in_blocks
from ...networks.loop import end_if
from .base import Fitted, Job, Member, under
from .design import Design

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
        found = in_blocks(lambda part: self.design(part) @ slopes + offset, x)
        if self.outputs == 1:
            return found.squeeze(1)
        return torch.cat((-found / 2, found / 2), 1) if found.shape[1] == 1 else found

    def cut(self, checkpoint: int) -> Self:
        place = checkpoint % self.checkpoints
        part = slice(place, place + 1)
        return type(self)(self.design, self.coefficients[part], self.intercepts[part], self.outputs)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        own = {"coefficients": self.coefficients, "intercepts": self.intercepts}
        return {**own, **{f"design/{name}": one for name, one in self.design.tensors.items()}}, {
            "outputs": self.outputs
        }

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
