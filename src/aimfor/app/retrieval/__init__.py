"""Pictures found by their likeness: an embedding for classes never seen in training, vectors, and a search in them."""
