"""Two mistakes that a type checker must see through the installed wheel."""

import aimfor

aimfor.MetricLoss(0.5)  # wrong
aimfor.SmoothEngine(temperatur=1.0)  # wrong
