"""Regimes × losses under one protocol, written down in PROTOCOL.md before the first result."""
