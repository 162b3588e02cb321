"""Moments and predictions on a torch device."""
