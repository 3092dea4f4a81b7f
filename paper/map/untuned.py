"""`map_untuned`: decisions at threshold 0 or by argmax, where nobody may tune a threshold."""

from __future__ import annotations

from .losses import FEW, OF_CLASSES, OF_TWO_CLASSES, OURS
from .regimes import Entrants, regime
from .tables import SMALL_TABLES, load_task

DATA: Entrants = {
    **dict.fromkeys(("mammography", "bank_marketing", "creditcard_fraud"), (("f1",), (*OF_TWO_CLASSES, *OURS))),
    **dict.fromkeys(("digits", "mnist long tail"), (("f1_macro",), (*OF_CLASSES, *OURS))),
    **dict.fromkeys(SMALL_TABLES, (("f1",), FEW)),
}
EXPERIMENT = regime("map_untuned", "The map: no threshold can be tuned", DATA, load_task)
