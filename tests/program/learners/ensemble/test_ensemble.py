"""The ensemble: what it says about a row comes from models that had not seen it, and a stop loses no finished cell."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from aimfor.errors import AimforError, InputError, Interrupted
from aimfor.learners.ensemble import Ensemble, FolderStore, MemoryStore, fit_ensemble
from aimfor.learners.ensemble.cells import Cell, Runner, run_cell
from aimfor.learners.ensemble.members import FOR_FEATURES, FOR_TABLES, KINDS, Job, Member, Rows, members
from aimfor.learners.ensemble.members.linear import Linear
from aimfor.learners.ensemble.members.trees import Trees
from aimfor.targets.objective import Objective

pytestmark = pytest.mark.filterwarnings("ignore::aimfor.errors.DegenerateBatchWarning")


def table(n: int = 260, classes: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows whose class depends on a bend and a product; one column is constant, one is far away."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=generator)
    x[:, 3] = 0.0
    x[:, 4] = 1e4 * x[:, 4]
    signal = x[:, 0].abs() + x[:, 1] * x[:, 2] + 0.3 * torch.randn(n, generator=generator)
    y = torch.bucketize(signal, torch.quantile(signal, torch.linspace(0, 1, classes + 1)[1:-1]))
    return x, y.long()


def easy(n: int = 120) -> tuple[Tensor, Tensor]:
    """Rows that every member learns something from, few as they are."""
    x, _ = table(n)
    return x, (x[:, 0] + 0.3 * x[:, 1] > 0.3).long()


@pytest.fixture(scope="module")
def made() -> tuple[Tensor, Tensor, Ensemble]:
    x, y = table()
    return x, y, fit_ensemble(x, y, Objective.of("auroc"), folds=3, seed=5)


def test_every_kind_sits_in_it_and_it_is_better_than_chance(made: tuple[Tensor, Tensor, Ensemble]) -> None:
    _, y, ensemble = made
    assert [seat.name for seat in ensemble.weighted_members] == [
        "linear",
        "trees",
        "extra_trees",
        "network",
    ]
    assert sum(seat.share for seat in ensemble.weighted_members) == pytest.approx(1.0)
    assert 0.75 < ensemble.cross_validated < 1.0
    fresh_x, fresh_y = table(2000, seed=9)
    assert ensemble.objective.value(ensemble.scores(fresh_x), fresh_y) == pytest.approx(
        ensemble.cross_validated, abs=0.08
    )
    assert torch.equal(ensemble.decide(fresh_x), (ensemble.scores(fresh_x) > ensemble.threshold.value).long())
    chances = ensemble.probabilities(fresh_x)
    assert float(chances.mean()) == pytest.approx(float(fresh_y.double().mean()), abs=0.05)
    assert bool(ensemble.scores(1e6 * fresh_x[:5]).isfinite().all())
    assert len(y) == len(ensemble.out_of_fold.rows) if ensemble.out_of_fold else False


def test_out_of_fold_scores_are_of_models_that_had_not_seen_the_row(made: tuple[Tensor, Tensor, Ensemble]) -> None:
    x, y, ensemble = made
    record = ensemble.out_of_fold
    assert record is not None
    assert torch.equal(record.y, y)
    for place, seat in enumerate(ensemble.weighted_members):
        for fold, fitted in enumerate(seat.fitted):
            rows = (record.folds == fold).nonzero().reshape(-1)
            again = seat.scale(fitted.scores(x[rows]))
            torch.testing.assert_close(again, record.members[place, rows], rtol=1e-6, atol=1e-6)


def test_linear_fold_is_a_fit_on_the_other_folds(made: tuple[Tensor, Tensor, Ensemble]) -> None:
    """The second way: the member alone on rows outside the fold gives the same scores."""
    x, y, ensemble = made
    record, seat = ensemble.out_of_fold, ensemble.weighted_members[0]
    assert record is not None
    inside = record.folds != 1
    held = Rows(x[~inside], y[~inside])
    alone = Linear().fit(Job(Rows(x[inside], y[inside]), held, ensemble.objective, 1, 0)).at(seat.checkpoint)
    torch.testing.assert_close(alone.scores(x), seat.fitted[1].scores(x), rtol=1e-9, atol=1e-9)


def test_a_row_has_the_same_score_alone_and_in_any_company() -> None:
    x = torch.randn(240, 30, generator=torch.Generator().manual_seed(0))
    ensemble = fit_ensemble(x, (x[:, :5].sum(1) > 2).long(), Objective.of("auroc"), single=True)
    whole = ensemble.scores(x)
    for rows in ([0], [3, 1], list(range(7)), list(range(len(x)))[::-1]):
        assert torch.equal(ensemble.scores(x[rows]), whole[rows])


def test_scores_are_the_weighted_mean_over_folds_and_members(made: tuple[Tensor, Tensor, Ensemble]) -> None:
    x, _, ensemble = made
    total = torch.zeros(len(x), dtype=torch.float64)
    for seat in ensemble.weighted_members:
        for fitted in seat.fitted:
            total += seat.share / len(seat.fitted) * seat.scale(fitted.scores(x))
    torch.testing.assert_close(ensemble.scores(x), ensemble.scale(total), rtol=1e-9, atol=1e-9)


def test_restored_it_says_the_same_to_the_last_bit(made: tuple[Tensor, Tensor, Ensemble], tmp_path: Path) -> None:
    x, _, ensemble = made
    store = FolderStore(tmp_path)
    for name, (tensors, facts) in ensemble.parts():
        store.put(name, tensors, facts)

    def get(name: str) -> Any:
        found = store.get(name)
        assert found is not None
        return found

    again = Ensemble.restore(ensemble.facts, get)
    assert torch.equal(again.scores(x), ensemble.scores(x))
    assert again.facts == ensemble.facts
    assert not any(path.suffix in (".pkl", ".pt", ".pickle") for path in tmp_path.iterdir())
    loud = next(seat["name"] for seat in ensemble.facts["seats"] if seat["share"] > 0.1)
    seats = [{**seat, "folds": 0} if seat["name"] == loud else seat for seat in ensemble.facts["seats"]]
    with pytest.raises(ValueError, match=f"{loud} has a share of the vote and no model"):
        Ensemble.restore({**ensemble.facts, "seats": seats}, get)


def test_stopped_it_goes_on_and_ends_the_same_to_the_last_bit(tmp_path: Path) -> None:
    x, y = easy()
    settings: dict[str, Any] = {"folds": 2, "seed": 3, "kinds": ("linear", "network")}
    whole = fit_ensemble(x, y, Objective.of("ap"), **settings)
    seen: list[str] = []
    for limit in (1, 2, 3):
        with pytest.raises(Interrupted):
            fit_ensemble(
                x, y, Objective.of("ap"), **settings, store=FolderStore(tmp_path),
                report=lambda progress: seen.append(progress.member), stop=lambda limit=limit: len(seen) >= limit,
            )  # fmt: skip
    last = fit_ensemble(x, y, Objective.of("ap"), **settings, store=FolderStore(tmp_path))
    assert seen == ["linear", "linear", "network"]
    assert float(whole.scores(x).std()) > 0.5
    assert torch.equal(last.scores(x), whole.scores(x))
    assert {**last.facts, "seats": 0} == {**whole.facts, "seats": 0}


def test_finished_cells_are_not_done_again_and_other_data_is_not_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = easy()
    store = MemoryStore()
    first = fit_ensemble(x, y, Objective.of("ap"), kinds=("linear",), folds=2, store=store)
    with monkeypatch.context() as patch:
        patch.setattr(Linear, "fit", lambda self, job: pytest.fail("fitted again"))
        again = fit_ensemble(x, y, Objective.of("ap"), kinds=("linear",), folds=2, store=store)
    assert torch.equal(first.scores(x), again.scores(x))
    moved = fit_ensemble(x + 1.0, y, Objective.of("ap"), kinds=("linear",), folds=2, store=store)
    alone = fit_ensemble(x + 1.0, y, Objective.of("ap"), kinds=("linear",), folds=2)
    assert torch.equal(moved.scores(x), alone.scores(x))
    assert not torch.equal(first.scores(x), alone.scores(x))


@pytest.mark.usefixtures("warm_server")
def test_two_processes_give_what_one_gives() -> None:
    x, y = easy()
    settings: dict[str, Any] = {"folds": 2, "seed": 1}
    alone = fit_ensemble(x, y, Objective.of("auroc"), **settings)
    spread = fit_ensemble(x, y, Objective.of("auroc"), **settings, workers=2)
    assert float(alone.scores(x).std()) > 0.5
    assert torch.equal(alone.scores(x), spread.scores(x))


def test_cells_of_workers_that_die_run_again_and_those_that_keep_dying_end_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = easy()
    settings: dict[str, Any] = {"kinds": ("linear",), "folds": 3, "seed": 1}
    asked: list[list[int]] = []

    def dies_after_each(self: Runner, member: Member, todo: list[int], starts: Any) -> Iterator[tuple[int, Cell]]:
        asked.append(list(todo))
        yield todo[0], run_cell(self.table, member, todo[0])
        raise BrokenProcessPool("killed")

    monkeypatch.setattr(Runner, "_on_pool", dies_after_each)
    found = fit_ensemble(x, y, Objective.of("auroc"), **settings, workers=2)
    assert asked[:3] == [[0, 1, 2], [1, 2], [2]]
    monkeypatch.undo()
    assert torch.equal(found.scores(x), fit_ensemble(x, y, Objective.of("auroc"), **settings).scores(x))

    def dies(self: Runner, *_: Any) -> Iterator[tuple[int, Cell]]:
        asked.append([])
        yield from ()
        raise BrokenProcessPool("killed")

    asked.clear()
    monkeypatch.setattr(Runner, "_on_pool", dies)
    with pytest.raises(AimforError, match=r"workers died 3 times without finishing a cell.*aimfor train --resume RUN"):
        fit_ensemble(x, y, Objective.of("auroc"), **settings, workers=2)
    assert len(asked) == 3


@pytest.mark.parametrize("metric", ["auroc_ovr", "auc_mu"])
def test_several_classes(metric: str) -> None:
    x, y = table(400, classes=3)
    ensemble = fit_ensemble(x, y, Objective.of(metric), folds=2)
    assert ensemble.outputs == 3
    assert ensemble.scores(x).shape == (400, 3)
    assert ensemble.cross_validated > 0.7
    torch.testing.assert_close(ensemble.probabilities(x).sum(1), torch.ones(400).double())
    assert float((ensemble.decide(x) == y).double().mean()) > 0.6


@pytest.mark.parametrize("metric", ["ap", "f1", "fbeta=2", "accuracy", "recall@precision=0.8"])
def test_other_metrics(metric: str) -> None:
    x, y = table(160)
    ensemble = fit_ensemble(x, y, Objective.of(metric), folds=2)
    assert len(ensemble.weighted_members) == 4
    assert 0.3 < ensemble.cross_validated <= 1.0


def test_weights_count_as_repetition_and_rows_of_weight_zero_do_not_count() -> None:
    x, y = table(150)
    weights = torch.ones(150, dtype=torch.float64)
    weights[:20] = 0.0
    with_zeros = fit_ensemble(x, y, Objective.of("auroc"), weights=weights, kinds=("linear", "trees"), folds=2)
    without = fit_ensemble(
        x[20:], y[20:], Objective.of("auroc"), weights=weights[20:], kinds=("linear", "trees"), folds=2
    )
    assert torch.equal(with_zeros.scores(x), without.scores(x))
    assert with_zeros.notes == ["20 rows of weight 0 left out"]
    assert with_zeros.out_of_fold is not None
    assert with_zeros.out_of_fold.rows.tolist() == list(range(20, 150))
    train, held = Rows(x, y), Rows(x[:50], y[:50])
    twice = Rows(torch.cat((x, x[:30])), torch.cat((y, y[:30])))
    counted = Rows(x, y, torch.cat((torch.full((30,), 2.0), torch.ones(120))))
    design = Linear().fit(Job(train, held, Objective.of("auroc"), 1, 0)).design
    fits = []
    for rows in (twice, counted):
        from aimfor.learners.ensemble.members import linear as module

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.Design, "fit", classmethod(lambda cls, x: design))
            fits.append(Linear(strengths=(0.1,), iterations=2000).fit(Job(rows, held, Objective.of("auroc"), 1, 0)))
    torch.testing.assert_close(fits[0].scores(x), fits[1].scores(x), rtol=1e-3, atol=1e-3)


def test_without_lightgbm_the_others_sit_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = easy()
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "lightgbm" else found(name, *rest)
    )
    ensemble = fit_ensemble(x, y, Objective.of("ap"), kinds=("linear", "trees"), folds=2)
    assert [seat.name for seat in ensemble.weighted_members] == ["linear"]
    assert "boosted trees left out: the package lightgbm is not installed" in ensemble.notes[0]
    with pytest.raises(InputError, match="none that can learn here"):
        fit_ensemble(x, y, Objective.of("ap"), kinds=("trees",), folds=2)


def one_that(what: str) -> Linear:
    """A second linear member that fails, or says what it says of no use."""

    class Broken(Linear):
        name, title = "broken", "a broken member"

        def fit(self, job: Job) -> Any:
            fitted = super().fit(job)
            if what == "fails" and job.seed % 1009 == 1:
                raise ArithmeticError("the matrix\nis singular")
            if what != "fails":
                factor, scores = {"nan": torch.nan, "infinite": torch.inf, "constant": 0.0}[what], fitted.scores
                fitted.scores = lambda x, checkpoint=-1: scores(x, checkpoint) * factor  # type: ignore[method-assign]
            return fitted

    return Broken()


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("fails", "it failed in fold 2: ArithmeticError: the matrix is singular"),
        ("nan", "it says of rows of fold 1 what is no finite number"),
        ("infinite", "it says of rows of fold 1 what is no finite number"),
        ("constant", "it says the same of every row"),
    ],
)
def test_a_member_that_fails_or_says_nothing_is_left_out_and_named(what: str, reason: str) -> None:
    x, y = easy()
    ensemble = fit_ensemble(x, y, Objective.of("f1"), members=(one_that(what), Linear()), folds=3)
    assert ensemble.notes == [f"a broken member left out: {reason}"]
    alone = fit_ensemble(x, y, Objective.of("f1"), kinds=("linear",), folds=3)
    assert [seat.name for seat in ensemble.weighted_members] == ["linear"]
    assert torch.equal(ensemble.scores(x), alone.scores(x))
    if what != "constant":
        with pytest.raises(InputError, match=f"none that learned: a broken member left out: {reason}"):
            fit_ensemble(x, y, Objective.of("f1"), members=(one_that(what),), folds=3)


def test_where_nobody_tells_rows_apart_the_metric_says_so() -> None:
    x, y = easy()
    ensemble = fit_ensemble(x, y, Objective.of("auroc"), members=(one_that("constant"),), folds=3)
    assert (ensemble.cross_validated, ensemble.notes) == (0.5, [])


@pytest.mark.usefixtures("warm_server")
def test_a_member_that_fails_in_a_process_is_left_out_alike() -> None:
    x, y = easy()
    objective, folds = Objective.of("ap"), {"folds": 2, "workers": 2}
    impossible = Trees(min_data_in_leaf="many")
    ensemble = fit_ensemble(x, y, objective, members=(impossible, Linear()), **folds)  # type: ignore[arg-type]
    assert [seat.name for seat in ensemble.weighted_members] == ["linear"]
    assert "boosted trees left out: it failed in fold" in ensemble.notes[0]


def test_out_of_time_the_first_member_stays_and_the_others_are_named() -> None:
    x, y = table(120)
    ensemble = fit_ensemble(x, y, Objective.of("ap"), folds=2, minutes=0.0)
    assert [seat.name for seat in ensemble.weighted_members] == ["linear"]
    assert len([note for note in ensemble.notes if "time limit was reached" in note]) == 3


def test_a_cell_cut_short_on_disk_is_named_and_not_used(tmp_path: Path) -> None:
    x, y = easy()
    fit_ensemble(x, y, Objective.of("ap"), kinds=("linear",), folds=2, store=FolderStore(tmp_path))
    path = tmp_path / "linear-0.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="which is damaged"):
        fit_ensemble(x, y, Objective.of("ap"), kinds=("linear",), folds=2, store=FolderStore(tmp_path))


X, Y = table(60)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x": X.double()}, "x: got shape"),
        ({"x": X[:, :0]}, "at least one column"),
        ({"x": X.where(X < 1e4, torch.nan)}, "not finite"),
        ({"y": Y[:-1]}, "one for each row"),
        ({"y": Y + 1}, "class ids 0 … 1"),
        ({"y": torch.zeros_like(Y)}, "one class only"),
        ({"weights": -torch.ones(60)}, "at least 0"),
        ({"weights": (Y == 0).double()}, "one class only"),
        ({"kinds": ("forest",)}, "'forest'"),
        ({"kinds": ()}, "none"),
        ({"groups": torch.zeros(60, dtype=torch.long)}, "1 group"),
    ],
)
def test_bad_input_is_refused_before_anything_learns(arguments: dict[str, Any], text: str) -> None:
    given = {"x": X, "y": Y, "kinds": ("linear",), **arguments}
    with pytest.raises(InputError, match=text):
        fit_ensemble(given.pop("x"), given.pop("y"), Objective.of("ap"), **given)


def test_a_column_that_is_constant_in_a_fold_and_a_fold_without_positives_are_no_reason_to_stop() -> None:
    x, y = easy(150)
    x[:, 2] = 0.0
    groups = torch.arange(150) // 30
    y[groups == 4] = 0
    x[groups == 3, 2] = 1.0  # constant wherever the fourth group does not train
    ensemble = fit_ensemble(x, y, Objective.of("auroc"), groups=groups, folds=5)
    assert len(ensemble.weighted_members) == 4
    assert any("without rows of every class" in note or "folds instead of 5" in note for note in ensemble.notes)
    assert bool(ensemble.scores(x).isfinite().all())
    assert ensemble.cross_validated > 0.8


def test_members_come_in_the_order_they_need_each_other() -> None:
    everyone = members()
    for place, member in enumerate(everyone):
        assert member.starts_from is None or member.starts_from in [one.name for one in everyone[:place]]
    assert set(KINDS) == {*FOR_TABLES, *FOR_FEATURES}
