"""Models for other libraries: one class per target, README scripts, examples and certificates."""
