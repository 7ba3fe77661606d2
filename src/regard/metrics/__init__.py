"""Metrics: lists of predictions and references in, scores with their signatures out."""
