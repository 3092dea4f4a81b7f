"""Comparisons beyond the papers."""
