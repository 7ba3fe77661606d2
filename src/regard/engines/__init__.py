"""Other ways to execute a trained model, each with the same answers as the readable one."""
