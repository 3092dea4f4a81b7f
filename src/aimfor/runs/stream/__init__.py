"""A run on a table larger than memory."""
