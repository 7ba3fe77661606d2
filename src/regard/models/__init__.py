"""Whole models and their settings."""
