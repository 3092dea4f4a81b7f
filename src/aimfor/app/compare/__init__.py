"""What `train` makes and its rivals side by side over paired seeds: the plan, its cells, the command."""
