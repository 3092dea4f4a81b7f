"""Pair rows that are never formed, against the matrix they stand for."""

from __future__ import annotations

import pytest
import torch

import aimfor
from aimfor import Status
from aimfor.lp import PairRows, solve


def auc_program(p: int, q: int, d: int, seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(p + q, d, generator=g, dtype=torch.float64)
    x[:p] += 0.3
    c = torch.cat((torch.zeros(d).double(), torch.full((p * q,), 1.0 / (p * q)).double()))
    lower = torch.cat((-torch.ones(d).double(), torch.zeros(p * q).double()))
    upper = torch.cat((torch.ones(d).double(), torch.full((p * q,), torch.inf).double()))
    return {"x": x, "c": c, "b": torch.full((p * q,), -1.0).double(), "lower": lower, "upper": upper}


@pytest.mark.parametrize("d", [0, 1, 4])
def test_pair_rows_give_the_dense_answer_and_gradient(d: int) -> None:
    a = auc_program(6, 9, d)
    g = torch.Generator().manual_seed(1)
    # Pairs that share their members have dependent rows: equal margins would make the optimum degenerate.
    a["b"] = torch.randn(54, generator=g, dtype=torch.float64)
    grads, values = [], []
    for make in (lambda rows: rows, lambda rows: rows.dense()):
        x, b, c = (a[k].clone().requires_grad_() for k in ("x", "b", "c"))
        s = solve(c, make(PairRows(x, 6)), b, lower=a["lower"], upper=a["upper"])
        assert s.status is Status.ok
        (s.value + (s.x[:d] * torch.arange(1.0, d + 1)).sum()).backward()
        grads.append((x.grad, b.grad, c.grad))
        values.append(s)
    assert float(values[0].value.detach()) == pytest.approx(float(values[1].value.detach()), rel=1e-9)
    assert torch.allclose(values[0].x, values[1].x, atol=1e-7)
    for mine, theirs in zip(*grads, strict=True):
        if mine is not None:
            assert torch.allclose(mine, theirs, atol=1e-7)


def test_the_gram_solve_inverts_the_gram_matrix() -> None:
    from aimfor.lp.program import read_program, standard_form

    a = auc_program(4, 5, 3)
    rows = PairRows(a["x"], 4)
    program = read_program(a["c"], rows, a["b"], lower=a["lower"], upper=a["upper"]).detached()
    operator = standard_form(program)[0].operator
    weights = torch.rand(1, operator.inequalities, dtype=torch.float64) + 0.1
    identity = torch.eye(operator.variables, dtype=torch.float64)[:, None]
    full = operator.inequality(identity)[:, 0].mT
    gram = full.mT @ (weights.mT * full)
    assert torch.allclose(operator.factor(weights).solve(gram[:, None]), identity, atol=1e-9)
    rows = torch.eye(operator.inequalities)[:, None].double()
    assert torch.allclose(operator.inequality_t(rows)[:, 0], full, atol=1e-12)


def test_bad_pair_rows_are_refused() -> None:
    with pytest.raises(aimfor.InputError, match="positives: got 3"):
        PairRows(torch.zeros(3, 1), 3)
    with pytest.raises(aimfor.InputError, match="A: got PairRows of shape"):
        solve(torch.zeros(4), PairRows(torch.zeros(3, 1), 1), torch.zeros(2))
    with pytest.raises(aimfor.InputError, match="A_eq: got equalities beside PairRows"):
        solve(torch.zeros(3), PairRows(torch.zeros(3, 1), 1), torch.zeros(2), A_eq=torch.ones(1, 3), b_eq=torch.ones(1))
