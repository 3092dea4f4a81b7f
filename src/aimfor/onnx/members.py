"""Members of an ensemble in ONNX: each member gives its folds' scores, ``(n, folds, outputs)`` float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import numpy_helper

from ..errors import InputError
from ..learners.ensemble import WeightedMember
from ..learners.ensemble.levels import Levels
from ..learners.ensemble.members import Fitted
from ..learners.ensemble.members.linear import CLIP, Design, FittedLinear
from ..learners.ensemble.members.network import BLOCKS, FittedNetwork
from ..learners.ensemble.members.trees import FittedTrees
from .graph import DOUBLE, FLOAT, INT64, Graph


def weighted_scores(g: Graph, x: str, weighted: WeightedMember) -> str:
    """What each fold's copy says about the encoded rows ``x`` (float64), before the member's scale."""
    if weighted.levels:
        pairs = zip(weighted.levels, weighted.fitted, strict=True)
        return g("Concat", *(_of_folds(g, _with_levels(g, x, levels), [fitted]) for levels, fitted in pairs), axis=1)
    return _of_folds(g, x, weighted.fitted)


def _of_folds(g: Graph, x: str, folds: Sequence[Fitted]) -> str:
    """``(n, folds, outputs)``."""
    trees = [fitted for fitted in folds if isinstance(fitted, FittedTrees)]
    if trees:
        return _trees(g, x, trees)
    scores = [_linear(g, x, fold) if isinstance(fold, FittedLinear) else _network(g, x, fold) for fold in folds]
    return g("Concat", *(g("Unsqueeze", of_fold, np.array([1])) for of_fold in scores), axis=1)


def _with_levels(g: Graph, x: str, levels: Levels) -> str:
    """Statistics in place of level numbers: the first where the number stands, further ones behind all columns."""
    blocks, further, done = [], [], 0
    for column, (numbers, values) in zip(levels.columns, levels.tables, strict=True):
        cells = g.cast(g("Gather", x, np.array([column]), axis=1), INT64)
        statistics = [
            g(
                "LabelEncoder",
                cells,
                domain="ai.onnx.ml",
                keys_tensor=numpy_helper.from_array(numbers.long().numpy(), "keys"),
                values_tensor=numpy_helper.from_array(statistic.contiguous().numpy(), "values"),
                default_tensor=numpy_helper.from_array(np.zeros(1, dtype=np.float32), "default"),
            )
            for statistic in values.t()
        ]
        first, *others = (g.cast(statistic, DOUBLE) for statistic in statistics)
        if column > done:
            blocks.append(g("Slice", x, np.array([done]), np.array([column]), np.array([1])))
        blocks.append(first)
        further += others
        done = column + 1
    rest = g("Slice", x, np.array([done]), np.array([2**31]), np.array([1]))
    return g("Concat", *blocks, rest, *further, axis=1)


def _both_ways(g: Graph, log_odds: str) -> str:
    """One log-odds as the scores of two classes; the last axis grows from 1 to 2."""
    return g("Mul", log_odds, np.array([-0.5, 0.5]))


def _designed(g: Graph, x: str, design: Design) -> str:
    t = {name: tensor.numpy() for name, tensor in design.tensors.items()}
    columns = g("Div", g("Sub", g.bounded(x, CLIP), t["mean"]), t["scale"])
    if "from" not in t:
        return columns
    reach = g("Div", g("Sub", g("Gather", x, t["from"], axis=1), t["left"]), t["right"] - t["left"])
    reach = g("Clip", reach, 0.0, 1.0)
    return g("Concat", columns, g("Div", g("Sub", reach, t["piece_mean"]), t["piece_scale"]), axis=1)


def _linear(g: Graph, x: str, fitted: FittedLinear) -> str:
    slopes, offset = fitted.coefficients[-1].t().numpy(), fitted.intercepts[-1].numpy()
    scores = g("Add", g("MatMul", _designed(g, x, fitted.design), slopes), offset)
    return _both_ways(g, scores) if fitted.outputs == 2 and slopes.shape[1] == 1 else scores


def _network(g: Graph, x: str, fitted: Fitted) -> str:
    """The mean of k perceptrons that differ in a scaling of their inputs and in their last layer."""
    if not isinstance(fitted, FittedNetwork):
        raise InputError("--onnx", f"a member of type {type(fitted).__name__}", "linear models, trees and networks")
    weights = {name: tensor.detach().numpy() for name, tensor in fitted.weights[-1].items()}
    inputs = g.cast(_designed(g, x, fitted.design), FLOAT)
    heads = g("Mul", g("Unsqueeze", inputs, np.array([1])), weights["backbone.affine.weight"])
    for block in range(BLOCKS):
        name = f"backbone.blocks.{block}.0"
        heads = g("Relu", g("Add", g("MatMul", heads, weights[f"{name}.weight"].T), weights[f"{name}.bias"]))
    last = g("MatMul", g("Transpose", heads, perm=[1, 0, 2]), weights["last.weight"])
    stated = g("Add", last, weights["last.bias"][:, None, :])
    return g.cast(g("ReduceMean", stated, np.array([0]), keepdims=0), DOUBLE)


@dataclass
class _Forest:
    """The trees of all folds in the form of ONNX: nodes and leaves in two long lists, roots by their node."""

    splits: list[float] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    to: dict[str, list[int]] = field(default_factory=lambda: {"left_child": [], "right_child": []})
    ends: dict[str, list[int]] = field(default_factory=lambda: {"left_child": [], "right_child": []})
    roots: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, tree: dict[str, str], target: int) -> None:
        """A tree of LightGBM's text. A child below 0 is a leaf: -1 the first, -2 the second, …"""
        leaves = [float(value) for value in tree["leaf_value"].split()]
        if len(leaves) == 1:  # it never split: ONNX wants a node, both of whose sides are the leaf
            tree = {"threshold": "0", "split_feature": "0", "left_child": "-1", "right_child": "-1"}
        node, leaf = len(self.splits), len(self.values)
        self.roots.append(node)
        self.splits += [float(value) for value in tree["threshold"].split()]
        self.features += [int(column) for column in tree["split_feature"].split()]
        for side, to in self.to.items():
            children = [int(child) for child in tree[side].split()]
            to += [node + child if child >= 0 else leaf + ~child for child in children]
            self.ends[side] += [int(child < 0) for child in children]
        self.targets += [target] * len(leaves)
        self.values += leaves


def _parsed(text: str) -> list[dict[str, str]]:
    """The trees of LightGBM's text model, each as its ``name=values`` lines."""
    blocks = text.split("\nTree=")[1:]
    return [dict(line.split("=", 1) for line in block.split("\n\n")[0].splitlines()[1:] if line) for block in blocks]


def _trees(g: Graph, x: str, folds: list[FittedTrees]) -> str:
    """All folds in one operator, a target for each fold and class."""
    forest, outputs = _Forest(), 1 if folds[0].outputs <= 2 else folds[0].outputs
    for fold, fitted in enumerate(folds):
        for number, tree in enumerate(_parsed(fitted.text)[: fitted.rounds[-1] * outputs]):
            if tree.get("num_cat", "0") != "0":
                raise InputError("--onnx", "trees that split by categories", "trees that aimfor grew")
            forest.add(tree, fold * outputs + number % outputs)
    modes = np.zeros(len(forest.splits), dtype=np.uint8)  # left where x ≤ split
    scores = g(
        "TreeEnsemble",
        x,
        domain="ai.onnx.ml",
        n_targets=len(folds) * outputs,
        aggregate_function=1,  # sum
        post_transform=0,
        tree_roots=forest.roots,
        nodes_modes=numpy_helper.from_array(modes, "modes"),
        nodes_featureids=forest.features,
        nodes_splits=numpy_helper.from_array(np.array(forest.splits), "splits"),
        nodes_truenodeids=forest.to["left_child"],
        nodes_trueleafs=forest.ends["left_child"],
        nodes_falsenodeids=forest.to["right_child"],
        nodes_falseleafs=forest.ends["right_child"],
        leaf_targetids=forest.targets,
        leaf_weights=numpy_helper.from_array(np.array(forest.values), "leaves"),
    )
    shaped = g("Reshape", scores, np.array([-1, len(folds), outputs]))
    return _both_ways(g, shaped) if folds[0].outputs == 2 else shaped
