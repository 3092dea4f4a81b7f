"""Mutations that Cosmic Ray does not have: a call whose result nobody reads, and a `detach`, left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import parso
from cosmic_ray.operators.operator import Operator

Place = tuple[tuple[int, int], tuple[int, int]]


class RemoveCall(Operator):  # type: ignore[misc]
    """``self.check(x)`` as a statement becomes ``pass``."""

    def mutation_positions(self, node: Any) -> Iterator[Place]:
        """The statement itself, where it is nothing but a call."""
        is_call = node.type in ("atom_expr", "power") and getattr(node.children[-1], "children", [""])[0] == "("
        if is_call and node.parent is not None and node.parent.type == "simple_stmt":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        prefix = node.get_first_leaf().prefix
        return parso.python.tree.Keyword("pass", node.start_pos, prefix)

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class RemoveDetach(Operator):  # type: ignore[misc]
    """``x.detach()`` becomes ``x``."""

    def mutation_positions(self, node: Any) -> Iterator[Place]:
        """Every ``.detach`` that an empty pair of brackets follows."""
        for child in self._detaches(node):
            yield child.start_pos, child.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        gone = self._detaches(node)[index]
        at = next(i for i, child in enumerate(node.children) if child is gone)
        del node.children[at : at + 2]
        return node

    @staticmethod
    def _detaches(node: Any) -> list[Any]:
        if node.type not in ("atom_expr", "power"):
            return []
        pairs = zip(node.children, node.children[1:], strict=False)
        return [child for child, after in pairs if child.get_code() == ".detach" and after.get_code() == "()"]

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


OWN = {"aimfor/RemoveCall": RemoveCall, "aimfor/RemoveDetach": RemoveDetach}
