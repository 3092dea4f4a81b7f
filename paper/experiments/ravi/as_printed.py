"""The papers' own algorithm (Ravi §4; Venkatesh §3.1): plain Lagrangian, separate steps, one optimizer for all."""

from __future__ import annotations

from typing import Any

#: The name of this mode in cells.
PLAIN = "plain"
#: No augmented terms; the model's optimizer steps τ and ε; λ at 10⁻³, μ at 10⁻⁵, one projection an epoch.
AS_PRINTED: dict[str, Any] = {"penalty": 0.0, "primal": "optimizer", "dual_step": 1e-3, "mu_step": 1e-5}
#: Of Adam, for the network, τ and ε alike.
AS_PRINTED_RATE = 1e-2
