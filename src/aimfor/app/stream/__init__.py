"""Tables larger than memory.

`table` finds the row groups, `survey` reads them once to learn what training needs, `reader` reads them again for the
`trees`, `run` trains, and `predict` scores.
"""
