"""From scratch in a plain loop: the defaults of all metrics against cross-entropy."""
