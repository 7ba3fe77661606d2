"""The experiments, one file each; registry.py finds them."""
