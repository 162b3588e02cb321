"""Read and check everything that a user can pass."""
