"""Fitting, once: losses, the loop, the choice on rows that were not trained on, paired statistics."""
