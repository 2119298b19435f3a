"""What a study looks like: plain values in, tables and figures out.

Knows nothing of databases, workers or engines.
"""
