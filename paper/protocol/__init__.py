"""The fair protocol of the older experiments: equal budgets, rivals tuned as carefully as ours."""
