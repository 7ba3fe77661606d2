"""Models of other programs, read and written. Their names, files and shapes are known in this room only."""
