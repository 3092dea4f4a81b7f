"""Comparing losses and models on equal terms."""
