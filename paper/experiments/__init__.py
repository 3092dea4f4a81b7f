"""One module, one experiment, with a module-level EXPERIMENT; a folder for each source of claims."""
