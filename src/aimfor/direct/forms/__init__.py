"""Metrics as argmax forms: rankings, discounted places, counts of decisions, classes."""
