"""The last phase on all labelled rows: what is saved, what is said, when it is left out, and that it can be resumed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn import functional
from typer.testing import CliRunner

from aimfor.app.cli.main import app
from aimfor.app.compare.cells import run_cell
from aimfor.app.compare.plan import make_plan
from aimfor.app.run import training
from aimfor.app.run.folder import Prepared, load_run, prepare
from aimfor.fitting import all_data, checkpoint
from aimfor.fitting.all_data import Ending, all_labelled, end
from aimfor.fitting.averaging import mean_of_weights
from aimfor.fitting.calibrate import platt
from aimfor.fitting.config import Recipe, Stage, find_recipe, recipes, settings
from aimfor.fitting.fit import Fit, Interrupted
from aimfor.fitting.models import scores_of
from aimfor.fitting.statistics import share_won
from aimfor.fitting.steps import Task

Weights = dict[str, torch.Tensor]


def with_phase(name: str) -> Recipe:
    return find_recipe(name).model_copy(update={"all_data": True})


def ready_for(metric: str = "auroc", **more: Any) -> Prepared:
    return prepare(settings(**{"data": "breast_cancer", "metric": metric, "epochs": 8, "model": "linear", **more}))


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def fit() -> Fit:
    ready = ready_for()
    return Fit(ready.task, ready.settings, with_phase("cross_entropy")).run()


def by_hand(fit: Fit, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The phase of a linear model written out: AdamW, a third of the rate, a quarter of the epochs, mean of weights."""
    given = fit.settings
    weight = fit.best["1.weight"].clone().requires_grad_()
    bias = fit.best["1.bias"].clone().requires_grad_()
    optimizer = torch.optim.AdamW([weight, bias], lr=given.learning_rate / 3, weight_decay=given.weight_decay)
    steps = given.epochs // 4 * (len(fit.task.y) // given.batch_size)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    epoch = 0
    while len(seen) < steps:
        generator = torch.Generator().manual_seed((given.seed * 31 + 1) * 100_003 + epoch)
        order = torch.randperm(len(y), generator=generator)
        for start in range(0, len(y) - given.batch_size + 1, given.batch_size):
            rows = order[start : start + given.batch_size]
            loss = functional.binary_cross_entropy_with_logits((x[rows] @ weight.T + bias).squeeze(1), y[rows].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append((weight.detach().double().clone(), bias.detach().double().clone()))
        epoch += 1
    weights, biases = zip(*seen[:steps], strict=True)
    return torch.stack(weights).mean(0), torch.stack(biases).mean(0)


def everything(fit: Fit) -> tuple[torch.Tensor, torch.Tensor]:
    task = fit.task
    return torch.cat([task.x, task.x_validation]), torch.cat([task.y, task.y_validation])


def agrees(ending: Ending, weight: torch.Tensor, bias: torch.Tensor) -> bool:
    found = ending.model.state_dict()
    return torch.allclose(found["1.weight"].double(), weight, atol=1e-6) and torch.allclose(
        found["1.bias"].double(), bias, atol=1e-6
    )


def test_saved_weights_are_those_of_the_phase_written_out_on_all_rows(fit: Fit) -> None:
    ending = end(fit)
    assert ending.phase is not None
    assert ending.phase["taken"]
    assert agrees(ending, *by_hand(fit, *everything(fit)))
    assert not same(ending.model.state_dict(), fit.best)
    assert same(fit.model.state_dict(), fit.best)  # the chosen model itself is left as it was


def test_threshold_and_validation_scores_are_those_of_the_trial_on_training_rows(fit: Fit) -> None:
    ending, task = end(fit), fit.task
    weight, bias = by_hand(fit, task.x, task.y)
    scores = (task.x_validation.double() @ weight.T + bias).squeeze(1)
    torch.testing.assert_close(ending.scores.double(), scores, atol=1e-5, rtol=1e-5)
    threshold, value = task.objective.tuned(scores, task.y_validation)
    assert ending.threshold == pytest.approx(threshold, abs=1e-4)
    assert ending.phase is not None
    assert ending.phase["trial"] == pytest.approx(value)


def test_the_check_notices_a_phase_on_training_rows_alone(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_data, "all_labelled", lambda task: task)
    assert not agrees(end(fit), *by_hand(fit, *everything(fit)))
    assert agrees(end(fit), *by_hand(fit, fit.task.x, fit.task.y))


def test_weights_of_validation_rows_go_with_them() -> None:
    task = ready_for().task
    weighted = Task(
        task.x, task.y, task.x_validation, task.y_validation, task.objective, 1, torch.full((len(task.y),), 2.0)
    )
    joined = all_labelled(weighted)
    assert joined.weights is not None
    assert joined.weights.tolist() == [2.0] * len(task.y) + [1.0] * len(task.y_validation)
    assert len(joined.x) == len(joined.y) == len(joined.weights)
    assert torch.equal(joined.x_validation, task.x_validation)


def test_plainly_worse_leaves_the_chosen_model_as_it_is(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_data, "PLAINLY_WORSE", 1.01)
    ending = end(fit)
    assert ending.phase is not None
    assert not ending.phase["taken"]
    assert "left out" in ending.phase["text"]
    assert same(ending.model.state_dict(), fit.best)
    assert ending.threshold == fit.state.best["threshold"]
    assert torch.equal(ending.scores, scores_of(fit.model, fit.task.x_validation, 1))


def test_without_the_phase_nothing_changes(fit: Fit) -> None:
    plain = Fit(fit.task, fit.settings, find_recipe("cross_entropy")).run()
    ending = end(plain)
    assert ending.phase is None
    assert same(ending.model.state_dict(), fit.best)


def test_a_chosen_head_stays_as_it_is_because_no_trial_could_judge_it() -> None:
    ready = ready_for(model="mlp", epochs=2, seed=1)
    fit = Fit(ready.task, ready.settings, with_phase("head")).run()
    assert fit.state.best["loss"] == "head"
    ending = end(fit)
    assert ending.phase is not None
    assert not ending.phase["taken"]
    assert "a refitted last layer was chosen" in ending.phase["text"]
    assert same(ending.model.state_dict(), fit.best)
    assert ending.threshold == fit.state.best["threshold"]


@pytest.mark.parametrize(
    ("data", "metric", "loss"),
    [("iris", "auc_mu", "weighted_ce"), ("digits_imbalanced", "ap", "metric"), ("breast_cancer", "ndcg@10", "metric")],
)
def test_classes_average_precision_and_lists_have_the_phase(data: str, metric: str, loss: Any) -> None:
    ready = ready_for(metric, data=data, epochs=4)
    recipe = Recipe(name="one", title="one stage", stages=(Stage(loss=loss, balanced=True),), all_data=True)
    fit = Fit(ready.task, ready.settings, recipe).run()
    ending = end(fit)
    assert ending.phase is not None
    assert same(ending.model.state_dict(), fit.best) != ending.phase["taken"]
    x, y = ready.test
    assert 0 <= ready.objective.value(scores_of(ending.model, x, ready.labels.outputs), y) <= 1


def test_images_have_the_phase(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    pixels = rng.normal(100 + 60 * labels[:, None, None, None], 40, (40, 8, 8, 3)).clip(0, 255).astype(np.uint8)
    np.savez(tmp_path / "set.npz", X=pixels, y=labels)
    ready = ready_for(data=str(tmp_path / "set.npz"), target="y", model="auto", epochs=2)
    ending = end(Fit(ready.task, ready.settings, with_phase("cross_entropy")).run())
    assert ending.phase is not None


# ---------------------------------------------------------------- the run folder


def run_folder(out: Path) -> tuple[Path, Prepared, Recipe]:
    given = settings(data="breast_cancer", metric="auroc", epochs=3, checkpoint_seconds=0.0)
    plan = with_phase("cross_entropy")
    folder, ready = training.start(given, plan, out)
    return folder, ready, plan


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    words = "train breast_cancer --metric auroc --epochs 3 --recipe cross_entropy --all-data --checkpoint-seconds 0 -q"
    result = CliRunner().invoke(app, [*words.split(), "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out


def test_what_the_folder_says_is_of_the_validated_model_and_the_test_rows(whole: Path) -> None:
    metrics, decision = (json.loads((whole / name).read_text()) for name in ("metrics.json", "threshold.json"))
    ready = prepare(settings(data="breast_cancer", metric="auroc", epochs=3))
    fit = Fit(ready.task, ready.settings, with_phase("cross_entropy")).run()
    ending = end(fit)
    assert metrics["last_phase"]["taken"]
    y = ready.task.y_validation
    before = roc_auc_score(y.numpy(), scores_of(fit.model, ready.task.x_validation, 1).numpy())
    assert metrics["validation"] == pytest.approx(before)
    assert decision["threshold"] == metrics["threshold"] == ending.threshold
    assert decision["calibration"] == list(platt(ending.scores, y))
    done = load_run(whole)
    assert same(done.model.state_dict(), ending.model.state_dict())
    after = done.scores(ready.source).numpy()[ready.parts.test]
    assert metrics["test"]["metric"] == pytest.approx(roc_auc_score(ready.test[1].numpy(), after))
    for name in ("report.html", "README.md"):
        assert metrics["last_phase"]["text"] in (whole / name).read_text()


def test_a_run_without_the_phase_has_no_sentence_about_it(tmp_path: Path) -> None:
    words = f"train breast_cancer --metric auroc --epochs 1 --no-all-data -q --out {tmp_path / 'run'}"
    assert CliRunner().invoke(app, words.split()).exit_code == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["last_phase"] is None
    assert "validation rows among the training rows" not in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("at", [2, 9])
def test_stopped_inside_the_phase_and_continued_is_the_same_run(
    at: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At step 2 the trial is under way, at step 9 the phase itself."""
    folder, ready, plan = run_folder(tmp_path / "run")
    real, left = all_data.take_step, [at]

    def interrupting(*arguments: Any) -> float:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(all_data, "take_step", interrupting)
    with pytest.raises(Interrupted):
        training.finish(folder, ready, plan)
    monkeypatch.undo()
    assert not (folder / "model.safetensors").exists()
    training.finish(folder, *training.reopen(folder))
    assert same(checkpoint.load(folder / "model.safetensors")[0], checkpoint.load(whole / "model.safetensors")[0])
    for name in ("threshold.json", "log.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("metric", ["f1", "iou", "accuracy", "fbeta=2"])
def test_metrics_that_decide_are_refused(metric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = refusal(tmp_path, monkeypatch, "--metric", metric, "--all-data")
    assert line.startswith(f"aimfor: --all-data: got it for {metric}, expected a metric without a threshold")
    assert "Leave it out: its decisions need a threshold from rows that were not trained on." in line


@pytest.mark.parametrize("metric", ["recall@precision=0.9", "precision@recall=0.8", "tpr@fpr=0.1"])
def test_metrics_with_a_floor_are_refused(metric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "its floor is kept by a threshold" in refusal(tmp_path, monkeypatch, "--metric", metric, "--all-data")


def test_a_recipe_that_asks_for_the_phase_is_refused_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('[mine]\nall_data = true\nstages = [{ loss = "ce" }]\n')
    assert recipes(tmp_path / "mine.toml")["mine"].all_data
    words = ["--metric", "f1", "--recipe", str(tmp_path / "mine.toml")]
    assert "--all-data: got it for f1" in refusal(tmp_path, monkeypatch, *words)


def refusal(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["train", "breast_cancer", *words])
    assert result.exit_code == 2, result.output
    assert not (folder / "runs").exists()
    (line,) = result.stderr.splitlines()
    return line


# ---------------------------------------------------------------- compare, and the parts


def test_compare_shows_every_recipe_with_and_without(fit: Fit) -> None:
    given = settings(data="breast_cancer", metric="auroc", epochs=8, model="linear")
    plan = make_plan(given, 2, ["cross_entropy"], all_data=True)
    assert [recipe.name for recipe in plan.recipes] == ["cross_entropy", "cross_entropy+all_data", "gradient_boosting"]
    plain, phase = (run_cell(cell) for _, cell in list(plan.cells())[:2])
    x, y = prepare(given).test
    for cell, model in ((plain, fit.model), (phase, end(fit).model)):
        assert cell["test"]["metric"] == pytest.approx(roc_auc_score(y.numpy(), scores_of(model, x, 1).numpy()))
    assert plain["validation"] == phase["validation"] == fit.state.best["value"]


def test_compare_says_why_a_metric_has_no_phase() -> None:
    plan = make_plan(settings(data="breast_cancer", metric="f1", epochs=1), 2, ["cross_entropy"], all_data=True)
    assert [recipe.name for recipe in plan.recipes] == ["cross_entropy", "gradient_boosting"]
    reason = "its decisions need a threshold from rows that were not trained on"
    assert plan.skipped == (f"a last phase on all data: {reason}",)


def test_share_won_counts_draws_and_halves_ties() -> None:
    labels = torch.tensor([0] * 30 + [1] * 10)
    better, worse = labels.double(), -labels.double()

    def auroc(scores: torch.Tensor, rows: torch.Tensor) -> float:
        assert (labels[rows] == 1).sum() == 10  # class by class
        return float(roc_auc_score(labels[rows].numpy(), scores.numpy()))

    assert share_won(auroc, better, worse, labels) == 1.0
    assert share_won(auroc, worse, better, labels) == 0.0
    assert share_won(auroc, better, better, labels) == 0.5
    noisy = better + torch.randn(40).double()
    other = better + torch.randn(40).double()
    assert share_won(auroc, noisy, other, labels) + share_won(auroc, other, noisy, labels) == pytest.approx(1.0)


def test_buffers_are_averaged_too() -> None:
    model = torch.nn.BatchNorm1d(2)
    seen = []

    def steps() -> Any:
        for _ in range(4):
            model(torch.randn(8, 2))
            assert model.running_mean is not None
            seen.append(model.running_mean.clone())
            yield

    mean = mean_of_weights(model, steps())
    torch.testing.assert_close(mean.get_buffer("running_mean"), torch.stack(seen).mean(0))
