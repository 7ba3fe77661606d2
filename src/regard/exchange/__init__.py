"""Models of other programs: their names, files and shapes are known in this room alone."""
