"""The claims of the four papers, in ``catalogue``, and their judges, which a report may use and know no claim."""
