"""The driver: asks for cells, sends legs, keeps every answer, tells each trial once.

Reading order: ``prepare`` (from a study file to disjoint slices), ``driver`` (the loop), ``tracks`` (what one
worker is doing), ``set_aside`` (one cell on prompts the search never saw). The driver is the only writer of the
database.
"""
