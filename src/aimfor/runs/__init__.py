"""A run: its folder, its driver, what it found, and its predictions."""
