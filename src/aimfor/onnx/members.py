"""Members of an ensemble in ONNX: each member gives its folds' scores, ``(n, folds, outputs)`` float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from ..errors import InputError
from ..learners.ensemble import WeightedMember
from ..learners.ensemble.levels import Levels
from ..learners.ensemble.members import Fitted
from ..learners.ensemble.members.linear import CLIP, Design, FittedLinear
from ..learners.ensemble.members.network import BLOCKS, FittedNetwork
from ..learners.ensemble.members.trees import FittedTrees
from .graph import Graph

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64


def weighted_scores(g: Graph, x: str, weighted: WeightedMember) -> str:
    """What each fold's copy says about the encoded rows ``x`` (float64), before the member's scale."""
    if weighted.levels:
        pairs = zip(weighted.levels, weighted.fitted, strict=True)
        return g("Concat", *(_of_fold(g, _with_levels(g, x, levels), fitted) for levels, fitted in pairs), axis=1)
    if isinstance(weighted.fitted[0], FittedTrees):
        return _trees(g, x, [one for one in weighted.fitted if isinstance(one, FittedTrees)])
    return _stacked(g, [_one(g, x, fitted) for fitted in weighted.fitted])


def _of_fold(g: Graph, x: str, fitted: Fitted) -> str:
    return _trees(g, x, [fitted]) if isinstance(fitted, FittedTrees) else _stacked(g, [_one(g, x, fitted)])


def _with_levels(g: Graph, x: str, levels: Levels) -> str:
    """Statistics in place of level numbers: the first where the number stands, further ones behind all columns."""
    parts, further, done = [], [], 0
    for column, (numbers, values) in zip(levels.columns, levels.tables, strict=True):
        cells = g.cast(g("Gather", x, np.array([column]), axis=1), INT64)
        found = [
            g(
                "LabelEncoder",
                cells,
                domain="ai.onnx.ml",
                keys_tensor=numpy_helper.from_array(numbers.long().numpy(), "keys"),
                values_tensor=numpy_helper.from_array(one.contiguous().numpy(), "values"),
                default_tensor=numpy_helper.from_array(np.zeros(1, dtype=np.float32), "default"),
            )
            for one in values.t()
        ]
        found = [g.cast(one, DOUBLE) for one in found]
        if column > done:
            parts.append(g("Slice", x, np.array([done]), np.array([column]), np.array([1])))
        parts.append(found[0])
        further += found[1:]
        done = column + 1
    rest = g("Slice", x, np.array([done]), np.array([2**31]), np.array([1]))
    return g("Concat", *parts, rest, *further, axis=1)


def _one(g: Graph, x: str, fitted: Fitted) -> str:
    if isinstance(fitted, FittedLinear):
        return _linear(g, x, fitted)
    if isinstance(fitted, FittedNetwork):
        return _network(g, x, fitted)
    raise InputError("--onnx", f"a member of type {type(fitted).__name__}", "linear models, trees and networks")


def _stacked(g: Graph, folds: list[str]) -> str:
    """``(n, outputs)`` each, to ``(n, folds, outputs)``."""
    return g("Concat", *(g("Unsqueeze", one, np.array([1])) for one in folds), axis=1)


def _both_ways(g: Graph, found: str) -> str:
    """One log-odds as the scores of two classes; the last axis grows from 1 to 2."""
    return g("Mul", found, np.array([-0.5, 0.5]))


def _designed(g: Graph, x: str, design: Design) -> str:
    t = {name: one.numpy() for name, one in design.tensors.items()}
    columns = g("Div", g("Sub", g.bounded(x, CLIP), t["mean"]), t["scale"])
    if "from" not in t:
        return columns
    reach = g("Div", g("Sub", g("Gather", x, t["from"], axis=1), t["left"]), t["right"] - t["left"])
    reach = g("Clip", reach, 0.0, 1.0)
    return g("Concat", columns, g("Div", g("Sub", reach, t["piece_mean"]), t["piece_scale"]), axis=1)


def _linear(g: Graph, x: str, fitted: FittedLinear) -> str:
    slopes, offset = fitted.coefficients[-1].t().numpy(), fitted.intercepts[-1].numpy()
    found = g("Add", g("MatMul", _designed(g, x, fitted.design), slopes), offset)
    return _both_ways(g, found) if fitted.outputs == 2 and slopes.shape[1] == 1 else found


def _network(g: Graph, x: str, fitted: FittedNetwork) -> str:
    """k perceptrons that differ in a scaling of their inputs and in their last layer; their mean speaks."""
    weights = {name: one.detach().numpy() for name, one in fitted.weights[-1].items()}
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
        numbers: Callable[[str], list[int]] = lambda name: [int(one) for one in tree.get(name, "").split()]  # noqa: E731
        node, leaf = len(self.splits), len(self.values)
        features = numbers("split_feature")
        leaves = [float(one) for one in tree["leaf_value"].split()]
        self.roots.append(node)
        if len(leaves) > 1:
            self.splits += [float(one) for one in tree["threshold"].split()]
            self.features += features
            for side in self.to:
                children = numbers(side)
                self.to[side] += [node + one if one >= 0 else leaf + ~one for one in children]
                self.ends[side] += [int(one < 0) for one in children]
        else:  # a tree that never split: ONNX wants a node, both of whose sides are the leaf
            self.splits.append(0.0)
            self.features.append(0)
            for side in self.to:
                self.to[side].append(leaf)
                self.ends[side].append(1)
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
    tensor: Callable[[str, Any], Any] = lambda name, values: numpy_helper.from_array(np.array(values), name)  # noqa: E731
    found = g(
        "TreeEnsemble",
        x,
        domain="ai.onnx.ml",
        n_targets=len(folds) * outputs,
        aggregate_function=1,  # sum
        post_transform=0,
        tree_roots=forest.roots,
        nodes_modes=tensor("modes", np.zeros(len(forest.splits), dtype=np.uint8)),  # left where x ≤ split
        nodes_featureids=forest.features,
        nodes_splits=tensor("splits", forest.splits),
        nodes_truenodeids=forest.to["left_child"],
        nodes_trueleafs=forest.ends["left_child"],
        nodes_falsenodeids=forest.to["right_child"],
        nodes_falseleafs=forest.ends["right_child"],
        leaf_targetids=forest.targets,
        leaf_weights=tensor("leaves", forest.values),
    )
    shaped = g("Reshape", found, np.array([-1, len(folds), outputs]))
    return _both_ways(g, shaped) if folds[0].outputs == 2 else shaped
