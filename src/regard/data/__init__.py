"""From files to batches: corpora are read, tokenised once into a memory-mapped store, planned, collated, prefetched.

Nothing is imported here: the processes that tokenise load `store` and its parts alone, not PyTorch.
"""
