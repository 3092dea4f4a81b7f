"""Guaranteed thresholds for anyone's scores: rows from a file, the decision, a page about it, and a watch over it."""
