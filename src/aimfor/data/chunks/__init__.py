"""A table larger than memory, read in chunks."""
