"""Names, the support table, and pairs that do not exist."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import aimfor
from aimfor.__main__ import USAGE
from aimfor.engine import Batch, EngineOutput
from aimfor.metrics import METRICS, metric_from_name
from programs import finished

SUPPORT = Path(aimfor.__file__).parent / "support.txt"


def test_every_example_name_makes_its_class() -> None:
    for entry in METRICS:
        assert type(metric_from_name(entry.example)) is entry.cls


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(aimfor.InputError, match="Did you mean 'auroc'"):
        metric_from_name("auroc_")


def test_public_surface_is_small_and_complete() -> None:
    assert len(aimfor.__all__) <= 30
    program = {"compare", "load", "train"}  # they need more than torch
    assert program | set(aimfor.__all__) == {"__version__", *aimfor._HOME}
    assert set(dir(aimfor)) == {*program, *aimfor.__all__, *aimfor._PACKAGES}
    for name in dir(aimfor):
        assert getattr(aimfor, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = aimfor.nonsense


def test_names_that_moved_into_subpackages_still_work() -> None:
    for name, home in aimfor._ELSEWHERE.items():
        assert name not in dir(aimfor)
        assert getattr(aimfor, name) is getattr(importlib.import_module(f"aimfor.{home}"), name)


USER_CODE = """
import aimfor
from aimfor import AUROC, MetricLoss
from aimfor.integrations.lightning import MetricLossCallback
import torch

loss_fn: aimfor.MetricLoss = MetricLoss("f1", aimfor.DirectEngine(1.0), threshold=0.5)
metric: aimfor.Metric = AUROC()
engine: aimfor.Engine = aimfor.SortedEngine(bank=16)
output: aimfor.EngineOutput = loss_fn.detailed(torch.zeros(3), torch.ones(3))
assert output.status is aimfor.Status.ok
undefined: int = loss_fn.counts.undefined
problem = aimfor.maximize(aimfor.rates.recall, subject_to=[aimfor.rates.precision >= 0.9])
other = aimfor.metrics.CountRatio((1, 0, 0, 0), (1, 1, 0, 0))
solve = aimfor.lp.solve
table: str = aimfor.support()
callback: MetricLossCallback = MetricLossCallback([loss_fn])
try:
    aimfor.metric_from_name("auroc")
except (aimfor.InputError, aimfor.UnsupportedPairError, aimfor.SolverError):
    pass
WRONG = aimfor.MetricLoss(3)
"""


OTHERS = (
    "torch", "numpy", "scipy", "sklearn", "pydantic", "pandas", "pyarrow", "matplotlib", "PIL", "typer", "rich",
    "jinja2", "lightgbm", "safetensors", "onnx", "onnxruntime", "distributed", "lightning", "transformers",
    "torchmetrics",
)  # fmt: skip


def test_strict_type_checking_of_user_code(tmp_path: Path) -> None:
    """Every name a user types is exported with its type: mypy finds the one wrong line, and nothing else."""
    (tmp_path / "user.py").write_text(USER_CODE)
    # The types of other packages take a minute to read and are not the question here.
    others = ",".join(f"{name}.*" for name in OTHERS)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\n[mypy-{others}]\nfollow_imports = skip\n")
    source = Path(aimfor.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports", "silent", "--cache-dir", str(tmp_path / "cache"), "user.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(source)},
        capture_output=True,
        text=True,
    )
    wrong = USER_CODE.splitlines().index("WRONG = aimfor.MetricLoss(3)") + 1
    found = [line for line in done.stdout.splitlines() if "error" in line and not line.startswith("Found")]
    assert len(found) == 1, done.stdout
    assert found[0].startswith(f"user.py:{wrong}: error: Argument 1 to"), done.stdout


def test_an_old_name_works_warns_and_stands_on_the_page_of_what_is_stable() -> None:
    page = (Path(__file__).parents[1] / "docs" / "stability.md").read_text(encoding="utf-8")
    for old, new in aimfor._OLD_NAMES.items():
        with pytest.warns(DeprecationWarning, match=f"aimfor.{old} is called aimfor.{new} now"):
            assert getattr(aimfor, old) is getattr(aimfor, new)
        assert old not in dir(aimfor)
        assert f"| `aimfor.{old}` | `aimfor.{new}` |" in page


def test_stored_support_table_is_the_live_one() -> None:
    live = aimfor.support() + "\n"
    assert SUPPORT.read_text(encoding="utf-8") == live, "run: python tools/support.py"


def test_the_page_on_choosing_shows_the_live_support_table() -> None:
    page = Path(__file__).parent.parent / "docs" / "choosing.md"
    assert aimfor.support() in page.read_text(encoding="utf-8")


class _OtherEngine(aimfor.Engine):
    name = "other"
    capability = dict  # no metric is a dict
    cost = "?"

    def formulate(self, metric: object, batch: Batch) -> object:
        return batch

    def solve(self, form: object) -> EngineOutput:
        raise AssertionError


def test_pair_that_does_not_exist_fails_at_construction_and_lists_what_does() -> None:
    with pytest.raises(aimfor.UnsupportedPairError, match=r"_OtherEngine cannot train AUROC.*SortedEngine"):
        aimfor.MetricLoss("auroc", _OtherEngine())
    assert issubclass(aimfor.UnsupportedPairError, TypeError)
    assert issubclass(aimfor.InputError, ValueError)


@pytest.mark.parametrize(("arguments", "said"), [(["--version"], aimfor.__version__), (["support"], "auroc")])
def test_command_line_answers_at_once_without_importing_any_library(arguments: list[str], said: str) -> None:
    code = f"""
import sys
there = set(sys.modules)
from aimfor.__main__ import main
code = main({arguments!r})
new = {{name.split(".")[0] for name in set(sys.modules) - there}} - sys.stdlib_module_names
assert new == {{"aimfor"}}, new
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_every_command_of_the_usage_text_exists() -> None:
    listed = [line.split()[0] for line in USAGE.splitlines() if line.startswith("  ")]
    assert {"train", "compare", "support"} <= set(listed)
    for command in listed:
        if command == "support":
            continue
        assert f"aimfor {command}" in finished(command, "--help").stdout


#: Engine → what its `extra_repr` says → the metrics whose default it is.
DEFAULTS = {
    "sorted": {"surrogate='squared_hinge', margin=1": "auroc auroc_ovr pauc@fpr=0.1"},
    "smooth": {
        "temperature=1.0, relative=False, anchor=1": "accuracy f1_micro",
        "temperature=1.0, relative=False, anchor=1, bank=2048": "pairwise_f1",
        "temperature=1.0, relative=False, anchor=1, anchor_temperature=0.5": "auc_mu multilabel_auroc",
        "temperature=1.0, relative=False, anchor=1, anchor_temperature=0.25": "precision@1 recall@5",
        "temperature=1.0, relative=False, anchor=0.5, bank=2048": "f1_macro f1_weighted",
        "temperature=1.0, relative=False, anchor=0.5": "miou qwk",
        "temperature=1.0, relative=False, anchor=0.5, anchor_temperature=0.25": "map@r r_precision",
        "temperature=0.25, relative=False, anchor=0.5, anchor_temperature=0.25, bank=2048": "f1 fbeta=2 iou mcc",
        "temperature=0.25, relative=False, anchor=0.5, anchor_temperature=0.25": "multilabel_ap",
        "temperature=0.25, relative=False, anchor=1, anchor_temperature=0.25": (
            "multilabel_f1 multilabel_f1_micro multilabel_f1_samples"
        ),
        "temperature=0.5, relative=False, anchor=0.5, anchor_temperature=0.5, bank=2048": "balanced_accuracy",
        "temperature=0.5, relative=False, anchor=0.5, anchor_temperature=0.5": "ap eer",
        "temperature=0.5, relative=False, anchor=0.5, anchor_temperature=0.25": "ndcg ndcg@10",
        "temperature=0.2, relative=True, anchor=0.5": "mrr hit@1",
    },
    "rates": {
        "proxy='logistic', temperature=0.25, every=10": (
            "precision@recall=0.8 recall@precision=0.9 tpr@fpr=0.1 auprc@10"
        )
    },
}


def test_defaults_are_those_that_were_chosen_by_measurement() -> None:
    """As docs/smooth.md and docs/choosing.md give them; others want the runs of `python -m paper from_scratch`."""
    expected = {
        name: (engine, settings)
        for engine, kinds in DEFAULTS.items()
        for settings, names in kinds.items()
        for name in names.split()
    }
    engines = {entry.example: metric_from_name(entry.example).default_engine() for entry in METRICS}
    assert {name: (engine.name, engine.extra_repr()) for name, engine in engines.items()} == expected


def test_a_star_import_needs_torch_alone() -> None:
    """A module of None in sys.modules cannot be imported."""
    code = "import sys; sys.modules.update({'pyarrow': None, 'sklearn': None, 'lightgbm': None}); from aimfor import *"
    subprocess.run([sys.executable, "-c", code + "; MetricLoss('f1')"], check=True)
