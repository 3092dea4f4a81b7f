"""A few lines over `onnx.helper`, so that a formula in ONNX reads like a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

#: Strings can be compared and matched since 20; trees in float64 since 5 of the machine-learning operators.
OPSETS = {"": 20, "ai.onnx.ml": 5}
IR_VERSION = 9
FLOAT, DOUBLE, INT64, STRING = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING

#: The name of a value in the graph, or something that becomes a constant of it.
Value = Any


class Graph:
    """Nodes in the order they were added. Names of inner values start with ``/``, which no column's input has.

    Example:
        >>> g = Graph()
        >>> g.output("y", g("Add", g.input("x", TensorProto.DOUBLE, ["rows"]), 1.0), TensorProto.DOUBLE, ["rows"])
        >>> [node.op_type for node in g.model({}).graph.node]
        ['Add', 'Identity']
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []

    def __call__(self, kind: str, *inputs: Value, domain: str = "", **attributes: Any) -> str:
        """Adds an operator with one output and returns that output's name."""
        name = f"/{len(self.nodes)}"
        names = [value if isinstance(value, str) else self._constant(np.asarray(value)) for value in inputs]
        self.nodes.append(helper.make_node(kind, names, [name], domain=domain, **attributes))
        return name

    def _constant(self, array: np.ndarray[Any, Any]) -> str:
        """Python's numbers are float64 and int64 already."""
        name = f"/c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def texts(self, texts: Sequence[str], shape: Sequence[int] | None = None) -> str:
        """A constant of strings; ``shape=()`` for a single one."""
        name = f"/c{len(self.constants)}"
        dims = [len(texts)] if shape is None else list(shape)
        cells: Any = [text.encode() for text in texts]
        self.constants.append(helper.make_tensor(name, TensorProto.STRING, dims, cells))
        return name

    def input(self, name: str, kind: int, shape: Sequence[str | int]) -> str:
        """An input of the whole; returns its name."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, kind: int, shape: Sequence[str | int]) -> None:
        """Makes a value an output of the whole, under this name."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self, facts: dict[str, str]) -> ModelProto:
        """The whole, with facts about it as metadata."""
        graph = helper.make_graph(self.nodes, "aimfor", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="aimfor")
        helper.set_model_props(model, facts)
        return model

    def column(self, vector: str) -> str:
        """``(n,)`` to ``(n, 1)``."""
        return self("Unsqueeze", vector, np.array([1]))

    def cast(self, value: str, kind: int) -> str:
        """The same numbers in another type."""
        return self("Cast", value, to=kind)

    def bounded(self, value: str, most: float) -> str:
        """Within ±most, float64."""
        return self("Clip", value, -most, most)
