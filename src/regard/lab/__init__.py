"""Experiments that answer questions about attention models: one file each in `experiments/`."""
