"""Lightning: the dual steps of metric losses at the end of each epoch, saved and restored with the checkpoint.

``lightning.pytorch`` and ``pytorch_lightning`` are two packages with two `Callback` classes. `MetricLossCallback` is
made for whichever is installed (``lightning`` first); `callback_for(pytorch_lightning)` makes it for the other.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from ..errors import InputError
from .epochs import end_epoch

__all__ = ["MetricLossCallback", "callback_for"]


class _Steps:
    """Losses inside the LightningModule are found there and saved by Lightning; name only those kept outside it.

    Args:
        losses: Metric losses that are not submodules of the LightningModule.

    Example:
        >>> import aimfor
        >>> from aimfor.integrations.lightning import MetricLossCallback
        >>> callback = MetricLossCallback(losses=[aimfor.MetricLoss("auroc")])
        >>> callback.on_train_epoch_end(trainer=None, pl_module=nn.Linear(1, 1))  # Lightning's own name for it
    """

    def __init__(self, losses: Sequence[nn.Module] = ()) -> None:
        super().__init__()
        for loss in losses:
            if not callable(getattr(loss, "end_epoch", None)):
                raise InputError("losses", f"a {type(loss).__name__}", "metric losses, which have end_epoch()")
        self.losses = list(losses)

    def on_train_epoch_end(self, trainer: Any, pl_module: nn.Module) -> None:
        """Runs before Lightning saves its checkpoint, so that the checkpoint holds the stepped duals."""
        inside = {id(module) for module in pl_module.modules()}
        end_epoch(pl_module)
        for loss in self.losses:
            if id(loss) not in inside:
                end_epoch(loss)

    def state_dict(self) -> dict[str, Any]:
        return {f"loss{i}": loss.state_dict() for i, loss in enumerate(self.losses)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for i, loss in enumerate(self.losses):
            loss.load_state_dict(state_dict[f"loss{i}"])


def callback_for(package: Any) -> type[_Steps]:
    """The callback class for a Lightning package, e.g. ``callback_for(pytorch_lightning)``.

    Example:
        >>> issubclass(callback_for(_installed()), _installed().Callback)
        True

    Raises:
        InputError: The package has no ``Callback``.
    """
    base = getattr(package, "Callback", None)
    if not isinstance(base, type):
        raise InputError("package", repr(package), "lightning.pytorch or pytorch_lightning")
    return type("MetricLossCallback", (_Steps, base), {"__doc__": _Steps.__doc__})


def _installed() -> Any:
    try:
        return importlib.import_module("lightning.pytorch")
    except ModuleNotFoundError:
        return importlib.import_module("pytorch_lightning")


if TYPE_CHECKING:
    from lightning.pytorch import Callback

    class MetricLossCallback(_Steps, Callback):
        """Of the package that is installed; for a type checker, of ``lightning``."""
else:
    MetricLossCallback = callback_for(_installed())
