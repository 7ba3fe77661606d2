"""Training: the loop, learning-rate schedules, optimizer, checkpoints, logs and distribution; for any task."""
