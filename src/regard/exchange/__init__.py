"""Models of other programs, read and written. Their names, files and shapes are used in this package only."""
