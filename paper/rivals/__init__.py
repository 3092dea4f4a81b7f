"""Losses of the peers, run as they are."""
