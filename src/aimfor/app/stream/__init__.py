"""Tables larger than memory.

`table` finds the row groups, `survey` reads them once to learn what training needs, `batches` reads them again in an
order that no number of workers or ranks changes, `fit` trains, and `predict` scores.
"""
