"""Solvers: interior point, exterior penalty, HiGHS, the paper's plain scheme, and the chain that joins them."""
