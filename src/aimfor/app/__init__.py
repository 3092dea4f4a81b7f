"""The program: train, compare, predict, report and export, from a table or an image folder to an answer."""
