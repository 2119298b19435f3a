"""Compare what a running server counts with what its artifact says of it."""
