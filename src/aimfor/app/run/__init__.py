"""A run: prepared data in, a folder out, and what reads that folder again (predict, export, card)."""
