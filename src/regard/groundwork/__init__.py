"""What the other rooms take for granted, from nothing: automatic differentiation, and a Transformer on top of it."""
