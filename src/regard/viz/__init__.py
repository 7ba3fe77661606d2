"""Visualisation: attention weights, curves and trees as terminal text, SVG or one HTML page; independent of models."""
