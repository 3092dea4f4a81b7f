"""Lightning, Hugging Face and torchrun: dual steps happen once, are saved, and losses keep their scale."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import aimfor
from aimfor.errors import InputError
from programs import finished

ROOT = Path(__file__).parents[2]


class Counted(nn.Module):
    """A loss with a dual that moves once per epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("dual", torch.zeros(()))
        self.inner = aimfor.MetricLoss("auroc")

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        return self.inner(scores, targets) * (1 + 0 * self.get_buffer("dual"))

    def end_epoch(self) -> None:
        self.get_buffer("dual").add_(1)


def rows() -> Any:
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    return [(x[:16], (x[:16, 0] > 0).long()), (x[16:], (x[16:, 0] > 0).long())]


def lightning_module(package: Any, loss: nn.Module | None) -> Any:
    class Module(package.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 1)
            self.inside = Counted() if loss is None else None

        def training_step(self, batch: Any, _: int) -> Tensor:
            used = self.inside if loss is None else loss
            assert used is not None
            result: Tensor = used(self.net(batch[0]).squeeze(1), batch[1])
            return result

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_lightning_steps_duals_once_per_epoch_and_resumes_them(name: str, where: str, tmp_path: Path) -> None:
    package = pytest.importorskip(name)
    from aimfor.integrations.lightning import callback_for

    def trainer(epochs: int, callback: Any) -> Any:
        return package.Trainer(
            max_epochs=epochs,
            callbacks=[callback],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            accelerator="cpu",
        )

    make = callback_for(package)
    loss = None if where == "inside" else Counted()
    module = lightning_module(package, loss)
    callback = make([] if loss is None else [loss])
    first = trainer(3, callback)
    first.fit(module, DataLoader(rows(), batch_size=None))
    moved = module.inside if loss is None else loss
    assert float(moved.dual) == 3
    first.save_checkpoint(tmp_path / "run.ckpt")
    again = None if loss is None else Counted()
    module = lightning_module(package, again)
    trainer(5, make([] if again is None else [again])).fit(
        module, DataLoader(rows(), batch_size=None), ckpt_path=tmp_path / "run.ckpt", weights_only=True
    )
    moved = module.inside if again is None else again
    assert float(moved.dual) == 5  # 3 restored, 2 more


def test_callback_for_either_package_is_a_callback_of_it() -> None:
    pytest.importorskip("lightning")
    from aimfor.integrations.lightning import MetricLossCallback, callback_for

    for name in ("lightning.pytorch", "pytorch_lightning"):
        package = importlib.import_module(name)
        assert issubclass(callback_for(package), package.Callback)
    assert MetricLossCallback is not None
    with pytest.raises(InputError, match="lightning"):
        callback_for(os)
    with pytest.raises(InputError, match="end_epoch"):
        callback_for(importlib.import_module("lightning.pytorch"))([nn.Linear(1, 1)])


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(16, 4)
        self.labels = torch.tensor([0, 1] * 8)

    def __len__(self) -> int:
        return 16

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {"x": self.x[i], "labels": self.labels[i]}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        return {"logits": self.linear(x)}


def hugging_face(tmp_path: Path, steps: int, model: nn.Module | None = None) -> Any:
    transformers = pytest.importorskip("transformers")
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=16 // steps,
        gradient_accumulation_steps=steps,
        num_train_epochs=2,
        max_grad_norm=0.0,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
    )
    return transformers.Trainer(model=model or Net(), args=arguments, train_dataset=Rows())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_hugging_face_minimises_the_mean_of_batch_losses(tmp_path: Path, steps: int) -> None:
    """One optimizer step per epoch: the weights after it must be those of a hand-written loop."""
    pytest.importorskip("transformers")
    from aimfor.integrations.transformers import use_metric_loss

    loss = Counted()
    trainer = use_metric_loss(hugging_face(tmp_path, steps), loss)
    seen: list[list[Tensor]] = []
    inner = trainer.compute_loss_func

    def spy(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Tensor:
        seen.append([outputs["logits"].detach().clone(), labels])
        result: Tensor = inner(outputs, labels, num_items_in_batch=num_items_in_batch)
        return result

    trainer.compute_loss_func = spy
    order: list[Tensor] = []
    prepare = trainer._prepare_inputs
    trainer._prepare_inputs = lambda inputs: order.append(inputs["x"].clone()) or prepare(inputs)
    trainer.train()
    model, plain = Net(), aimfor.MetricLoss("auroc")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        optimizer.zero_grad()
        for k in range(steps):
            x, (_, labels) = order[epoch * steps + k], seen[epoch * steps + k]
            logits = model(x)["logits"]
            (plain(logits[:, 1] - logits[:, 0], labels) / steps).backward()
        optimizer.step()
    for wanted, found in zip(model.parameters(), trainer.model.parameters(), strict=True):
        torch.testing.assert_close(found.detach(), wanted.detach(), rtol=1e-5, atol=1e-6)
    assert float(loss.get_buffer("dual")) == 2


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_does_not_multiply_by_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from aimfor.integrations.transformers import use_metric_loss

    trainer = hugging_face(tmp_path, 1)
    batch = {"x": Rows().x, "labels": Rows().labels}
    monkeypatch.setattr(type(trainer.accelerator), "num_processes", 3)
    plain = aimfor.MetricLoss("auroc")
    trainer.compute_loss_func = lambda outputs, labels, num_items_in_batch=None: plain(
        outputs["logits"][:, 1] - outputs["logits"][:, 0], labels
    )
    scaled = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=torch.tensor(16))
    use_metric_loss(trainer, plain)
    right = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=torch.tensor(16))
    assert float(scaled.detach()) == pytest.approx(3 * float(right.detach()))  # what the adapter is for
    with pytest.raises(InputError, match="labels"):
        trainer.compute_loss(trainer.model, {"x": Rows().x})
    with pytest.raises(InputError, match="MetricLoss"):
        use_metric_loss(trainer, "auroc")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", [1, 2])
def test_hugging_face_in_parts_learns_as_at_once(tmp_path: Path, steps: int) -> None:
    """The same weights under the same names, at most five rows at a time; evaluation as before."""
    pytest.importorskip("transformers")
    from aimfor.integrations.transformers import use_metric_loss

    class Accepts(Net):
        """As Hugging Face's own models: it takes anything, the number of items among it."""

        def forward(self, x: Tensor, labels: Tensor | None = None, **rest: Any) -> dict[str, Tensor]:
            sizes.append(len(x))
            extras.append(set(rest))
            return super().forward(x, labels)

    found = []
    for rows_at_once in (None, 5):
        sizes: list[int] = []
        extras: list[set[str]] = []
        trainer = hugging_face(tmp_path, steps, Accepts())
        use_metric_loss(trainer, aimfor.MetricLoss("ap"), rows=rows_at_once).train()
        assert max(sizes) == (16 // steps if rows_at_once is None else 4)
        assert set().union(*extras) == ({"num_items_in_batch"} if rows_at_once is None else set())
        assert len(trainer.predict(Rows()).predictions) == 16
        found.append(trainer.model.state_dict())
    assert found[0].keys() == found[1].keys() == Net().state_dict().keys()
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, rtol=1e-5, atol=1e-6)
    assert not torch.equal(found[0]["linear.weight"], Net().state_dict()["linear.weight"])
    with pytest.raises(InputError, match="rows: got 0"):
        use_metric_loss(hugging_face(tmp_path, 1), aimfor.MetricLoss("ap"), rows=0)
    use_metric_loss(hugging_face(tmp_path, 1), aimfor.MetricLoss("ap"), rows=1)


@pytest.mark.filterwarnings("ignore")
def test_lightning_in_parts_learns_as_at_once() -> None:
    package = pytest.importorskip("lightning.pytorch")

    class InParts(package.LightningModule):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net, self.loss, self.size = nn.Linear(4, 1), aimfor.MetricLoss("ap"), size

        def training_step(self, batch: Any, _: int) -> Tensor:
            loss: Tensor = self.loss(aimfor.in_parts(self.net, batch[0], rows=self.size).squeeze(1), batch[1])
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    found = []
    for size in (16, 3):
        module = InParts(size)
        package.Trainer(max_epochs=2, accelerator="cpu", **quiet).fit(module, DataLoader(rows(), batch_size=None))
        found.append(module.net.weight.detach())
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)
    assert not torch.equal(found[0], InParts(3).net.weight.detach())


@pytest.mark.parametrize("inside", [True, False])
def test_hugging_face_checkpoints_hold_a_problem_inside_the_model_or_outside(inside: bool, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from aimfor.integrations.transformers import FILE, use_metric_loss
    from aimfor.rates import precision, recall

    def make(epochs: int) -> tuple[Any, Any]:
        trainer, problem = hugging_face(tmp_path, 1), aimfor.maximize(recall, precision >= 0.9, dual_every=1)
        trainer.args.save_strategy, trainer.args.num_train_epochs = "epoch", epochs
        if inside:
            trainer.model.problem = problem
        return use_metric_loss(trainer, problem), problem

    trainer, whole = make(3)
    trainer.train()
    last = [one.detach().clone() for one in trainer.model.parameters()]
    saved = tmp_path / "checkpoint-2"
    assert (saved / FILE).exists() != inside
    trainer, resumed = make(3)
    trainer.train(resume_from_checkpoint=str(saved))
    assert resumed.multipliers == whole.multipliers
    assert resumed.calls == whole.calls == 3
    assert all(torch.equal(one, other) for one, other in zip(trainer.model.parameters(), last, strict=True))
    if not inside:
        (saved / FILE).unlink()
        with pytest.raises(InputError, match=FILE):
            make(3)[0].train(resume_from_checkpoint=str(saved))


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_passes_columns_of_the_batch_to_the_loss(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from aimfor.integrations.transformers import use_metric_loss

    given: list[dict[str, Any]] = []

    class Spy(nn.Module):
        def forward(self, scores: Tensor, targets: Tensor, **beside: Any) -> Tensor:
            given.append(beside)
            return (scores * beside["weights"]).sum()

    class Wide(Rows):
        def __getitem__(self, i: int) -> dict[str, Tensor]:
            number = torch.tensor(i)
            return {**super().__getitem__(i), "row": number, "weight": number + 0.5, "sex": number % 2}

    trainer = hugging_face(tmp_path, 1)
    trainer.train_dataset = Wide()
    use_metric_loss(trainer, Spy(), index="row", weights="weight", groups={"sex": "sex"}).train()
    assert len(given) == 2
    for beside in given:
        assert beside.keys() == {"index", "weights", "groups"}
        assert torch.equal(beside["weights"], beside["index"] + 0.5)
        assert torch.equal(beside["groups"]["sex"], beside["index"] % 2)
        assert sorted(beside["index"].tolist()) == list(range(16))
    trainer.train_dataset = Rows()
    with pytest.raises(InputError, match="row, weight, sex"):
        trainer.train()


#: What torchrun does with its words, but its two processes are forked from one that has imported everything.
TORCHRUN = """
    import os, runpy, sys
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.chdir(sys.argv[1])
    place = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    config = LaunchConfig(1, 1, 2, start_method="fork", max_restarts=0, **place)


    def run(script):
        left = runpy.run_path(script, run_name="__main__")
        print("\\nrank", left["rank"], "of", left["world"])


    elastic_launch(config, run)(sys.argv[2])
"""


def test_plain_loop_under_torchrun_reaches_what_one_process_reaches(tmp_path: Path) -> None:
    """Two processes share each batch of 64, so the run differs from the single one by its sampling alone."""
    script = str(ROOT / "examples" / "plain_loop_ddp.py")
    code = "import os, runpy, sys; os.chdir(sys.argv[1]); runpy.run_path(sys.argv[2], run_name='__main__')"
    done = [finished(tmp_path, script, code=code), finished(tmp_path, script, code=TORCHRUN)]
    assert {"rank 0 of 2", "rank 1 of 2"} <= set(done[1].stdout.splitlines())
    found = [float(one.stdout.split("AUROC")[1].split()[0]) for one in done]
    assert found[1] == pytest.approx(found[0], abs=0.01)
    assert min(found) > 0.9
