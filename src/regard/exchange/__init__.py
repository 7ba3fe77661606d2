"""Models of other libraries, read and written. Their names, files and shapes are used in this package only."""
