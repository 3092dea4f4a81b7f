"""Thin shells around aimfor for scikit-learn, Lightning and Hugging Face. Each needs its own package installed."""
