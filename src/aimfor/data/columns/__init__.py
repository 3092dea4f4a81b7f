"""What a column is, decided once and stored as JSON; columns in memory in, a float32 matrix out.

``cells`` holds columns as they came. ``schema`` decides whether a column is a number, a date, a category, text or of no
use; ``quantities`` encodes numbers and dates, ``coders`` categories and text; ``encoder`` puts them side by side.
Nothing is inferred again after fitting: the same row gives the same numbers alone, in any batch, from any kind of file.
"""

from .cells import Column, columns_of
from .encoder import TableEncoder

__all__ = ["Column", "TableEncoder", "columns_of"]
