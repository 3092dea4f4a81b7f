"""Sliced inverse regression against Fisher's discriminant, against known directions, and its test against chance."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from paper.rivals.inverse_regression import dimension, inverse_regression


def clouds(seed: int, n: int, means: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(len(means), (n,), generator=draw)
    return torch.randn(n, means.shape[1], generator=draw, dtype=torch.float64) + means[y], y


def test_two_slices_give_fisher_s_direction() -> None:
    x, y = clouds(0, 400, torch.tensor([[0.0, 0, 0, 0], [1.0, -0.5, 0, 0.3]], dtype=torch.float64))
    x = x @ torch.tensor([[2.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0.1, 0], [0, 3, 0, 1]], dtype=torch.float64)
    _, directions = inverse_regression(x, y)
    fisher = LinearDiscriminantAnalysis(solver="lsqr").fit(x.numpy(), y.numpy()).coef_[0]
    cosine = abs(fisher @ directions[:, 0].numpy()) / np.linalg.norm(fisher) / np.linalg.norm(directions[:, 0])
    assert cosine > 1 - 1e-10


def test_a_response_of_two_directions_is_found_with_its_dimension() -> None:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(4000, 8, generator=draw, dtype=torch.float64)
    response = x[:, 0] + 0.3 * torch.randn(4000, generator=draw)
    slices = 2 * torch.bucketize(response, response.quantile(torch.linspace(0, 1, 6, dtype=torch.float64)[1:-1]))
    slices += (x[:, 3] > 0).long()
    values, directions = inverse_regression(x, slices)
    assert dimension(values, len(x), len(slices.unique())) == 2
    kept = torch.linalg.qr(directions[:, :2]).Q
    assert float(kept[[0, 3]].square().sum()) > 1.99


def test_slices_by_chance_pass_the_test_as_often_as_promised() -> None:
    """Nothing to find: n times the sum of all eigenvalues is χ² with d (slices − 1) degrees of freedom."""
    sums = []
    for seed in range(300):
        x, y = clouds(seed, 500, torch.zeros(3, 5, dtype=torch.float64))
        values, _ = inverse_regression(x, y)
        sums.append(len(x) * float(values.sum()))
    assert stats.kstest(sums, stats.chi2(5 * 2).cdf).pvalue > 0.01
    refuted = np.mean(np.array(sums) > stats.chi2.ppf(0.95, 10))
    assert 0.02 < refuted < 0.09


def test_three_clouds_in_a_plane_need_two_directions_and_on_a_line_one() -> None:
    plane = torch.tensor([[0.0, 0, 0, 0], [2, 0, 0, 0], [0, 2, 0, 0]], dtype=torch.float64)
    line = torch.tensor([[0.0, 0, 0, 0], [2, 0, 0, 0], [4, 0, 0, 0]], dtype=torch.float64)
    for means, wanted in ((plane, 2), (line, 1)):
        x, y = clouds(3, 600, means)
        values, _ = inverse_regression(x, y)
        assert dimension(values, len(x), 3) == wanted
        assert dimension(values, len(x), 3, level=0.5) in (wanted, 2)
