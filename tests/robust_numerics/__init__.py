"""Numbers: precision, extremes, threads and processes, models of other versions."""
