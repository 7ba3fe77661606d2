"""Attention: scores, masks, layouts, caches, multi-head attention, attention of recurrent decoders."""
