"""Constraint matrices as operators: dense, sparse, structured (never formed) and sketched."""
