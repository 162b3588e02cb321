"""The mathematics of the kernel method: arrays in, arrays out, no estimator."""
