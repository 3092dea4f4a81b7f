"""Data sets from disk, in the formats they are published in."""
