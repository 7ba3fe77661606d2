"""Models for other libraries: one class per target, README programs, examples and certificates."""
