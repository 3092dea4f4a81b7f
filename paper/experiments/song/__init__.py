"""Song 2016: direct loss minimisation."""
