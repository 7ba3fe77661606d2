"""A run: the folder of a model, training it, and using it."""
