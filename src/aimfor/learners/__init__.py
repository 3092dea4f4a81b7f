"""What fits and scores: the ensemble, the embedding, the mask network."""
