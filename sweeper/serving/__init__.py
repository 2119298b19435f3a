"""Serving a frozen artifact inside vLLM's own server: verified at the start, switched and watched while it runs.

``endpoint`` is what vLLM loads in its API process, ``worker`` what it mixes into its workers. Everything that goes
wrong ends in strict decoding or in a server that does not start.
"""
