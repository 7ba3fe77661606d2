"""Layers that models are built from: positions, residual connections, blocks, recurrent and convolutional layers."""
