"""The tasks: one file each, behind the interface of base.py; registry.py lists them."""
