"""Moments of several sites: files of pilots and moments, and sums as integers that can be masked."""
