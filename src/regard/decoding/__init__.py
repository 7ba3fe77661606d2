"""Greedy search, beam search and sampling, over any model that generates token by token."""
