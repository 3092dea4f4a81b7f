"""Sources: what is read (files, pictures, chunks of a large table), and what a column is."""
