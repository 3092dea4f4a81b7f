"""What is predicted (classes, grades, labels, identities, pixels): encoded, split, evaluated and decided."""
