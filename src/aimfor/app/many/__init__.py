"""Pictures with several labels at once: one committee and one threshold for each label, on the same features."""
