"""Rivals, the paper's experiments and the comparison of methods, for fairspan."""
