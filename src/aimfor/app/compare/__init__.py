"""Rivals and recipes side by side over paired seeds: the plan, its cells, the command."""
