"""The signed artifact and whether to trust it: what a serving host runs before it uses any control.

Standard library and ``cryptography`` only; imports nothing else of ours. Every doubt ends in ``errors.Refused``.
"""
