"""Networks of the experiments, from maintained libraries where installed."""
