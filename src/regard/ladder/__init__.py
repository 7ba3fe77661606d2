"""The ladder: models of one task trained on the same data with the same budget, and compared."""
