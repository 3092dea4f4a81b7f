"""Ravi 2020 and Venkatesh 2019: the F-score as a regularizer."""
