"""Warm engines: the real one (vLLM) and the simulated one behind the same interface."""
