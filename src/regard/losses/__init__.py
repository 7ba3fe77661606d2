"""Training losses. A loss is a sum and a count; the training loop adds up micro-batches and ranks and divides once."""
