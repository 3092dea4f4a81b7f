"""One label out of several: by example, where inference is an argmax over the classes, or by pixel, class by class.

One-vs-rest masks: the margin of class c is ``φ_c − max over the other classes``; it is above 0 exactly where c is
decided (ties aside), so the IoU of class c at threshold 0 of its margin *is* the IoU of the argmax decision. Every
class then has its own score function, argmax and loss, theorem 1 holds for each, and the gradient of the mean is the
mean of the gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ...engine import Batch
from ..engine import LinearForm
from ..lists import Rows, rows_of


class ClassForm(LinearForm):
    """0-1 loss, or any table of costs, of the highest-scoring class: ``F(y) = Σ_i share_i φ_{i, y_i}``.

    The examples are independent, so ``y_direct`` adds ``sign · ε · cost[target, ·]`` to each row of scores and
    takes the argmax. Among equal scores the first class is predicted.

    Args:
        scores: ``(n, c)``, attached to the graph.
        targets: ``(n,)`` class ids.
        share: ``(n,)`` weight of each example, summing to 1; 0 where masked.
        loss: The exact value of the loss.
        cost: ``(c, c)``, row = truth, column = decision, 0 on the diagonal; None for the 0-1 loss.

    Example:
        >>> import torch, aimfor
        >>> metric, scores = aimfor.Accuracy(), torch.tensor([[2.0, 1.0], [0.0, 1.0]])
        >>> form = metric.argmax_form(metric.check(scores, torch.tensor([0, 0])))
        >>> form.predict().tolist(), float(form.loss())
        ([[0.5, 0.0], [0.0, 0.5]], 0.5)
    """

    def __init__(
        self, scores: Tensor, targets: Tensor, share: Tensor, loss: Tensor, cost: Tensor | None = None
    ) -> None:
        super().__init__(scores, loss)
        self._targets = targets
        self._share = share
        classes = scores.shape[1]
        self._cost = 1.0 - torch.eye(classes, device=scores.device) if cost is None else cost

    def predict(self) -> Tensor:
        return self._coefficients(self.scores.detach().argmax(1))

    def truth(self) -> Tensor:
        return self._coefficients(self._targets)

    def augment(self, epsilon: float, sign: int) -> Tensor:
        cost = self._cost.to(self.scores.dtype)[self._targets]
        return self._coefficients((self.scores.detach() + sign * epsilon * cost).argmax(1))

    def _coefficients(self, classes: Tensor) -> Tensor:
        return functional.one_hot(classes, self.scores.shape[1]) * self._share.to(self.scores.dtype)[:, None]


def margins(scores: Tensor) -> Tensor:
    """``(…, c)`` scores to ``(…, c)`` margins over the best other class, differentiable.

    Example:
        >>> import torch
        >>> from aimfor.direct.forms.classes import margins
        >>> margins(torch.tensor([3.0, 1.0, 2.0]))
        tensor([ 1., -2., -1.])
    """
    top = scores.topk(2, dim=-1)
    classes = torch.arange(scores.shape[-1], device=scores.device)
    leads = classes == top.indices[..., :1]
    return scores - torch.where(leads, top.values[..., 1:], top.values[..., :1])


def class_rows(batch: Batch) -> Rows:
    """Images ``(b, l, c)``, or one image ``(l, c)``, as ``b · c`` binary rows of length l, image by image.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.direct import class_rows
        >>> batch = aimfor.IoU(classes="mean").check(torch.zeros(1, 2, 1, 3), torch.tensor([[[0, 1, 1]]]))
        >>> class_rows(batch).positive.tolist()
        [[True, False, False], [False, True, True]]
    """
    scores = batch.scores if batch.scores.ndim == 3 else batch.scores[None]
    b, length, classes = scores.shape
    targets = batch.targets.reshape(b, 1, length)

    def spread(entries: Tensor | None) -> Tensor | None:
        return (
            None
            if entries is None
            else entries.reshape(b, 1, length).expand(b, classes, length).reshape(b * classes, length)
        )

    is_class = targets == torch.arange(classes, device=scores.device)[:, None]
    return rows_of(
        Batch(
            margins(scores).transpose(1, 2).reshape(b * classes, length),
            is_class.reshape(b * classes, length),
            spread(batch.weights),
            spread(batch.where),
        )
    )


def mean_shares(defined: Tensor) -> Tensor:
    """``(images, classes)`` bool: the weight of each cell in the mean over images of the mean over classes.

    Example:
        >>> import torch
        >>> from aimfor.direct import mean_shares
        >>> mean_shares(torch.tensor([[True, False], [True, True]])).tolist()
        [[0.5, 0.0], [0.25, 0.25]]
    """
    present = defined.double()
    of_image = present / present.sum(1, keepdim=True).clamp_min(1.0)
    return of_image / present.any(1).sum().clamp_min(1)
