"""What a column is, decided once and stored as JSON; columns in memory in, a float32 matrix out.

``cells`` holds columns as they came, ``frames`` takes them from data frames and arrays. ``schema`` decides whether a
column is a number, a date, a category, text or of no use; ``numbers``, ``dates``, ``categories`` and ``words`` encode
one kind each; ``encoder`` puts them side by side. Nothing is inferred again after fitting: the same row gives the same
numbers alone, in any batch and from any kind of file.
"""

from .cells import Column
from .encoder import TableEncoder
from .frames import columns_of

__all__ = ["Column", "TableEncoder", "columns_of"]
