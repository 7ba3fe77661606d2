"""Checks of a recipe before training: data, model, memory, disk and time."""
