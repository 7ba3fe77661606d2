"""Searching for a model's best output: greedy, beam and sampling, over anything that can start and step."""
