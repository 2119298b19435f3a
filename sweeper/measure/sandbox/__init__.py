"""Run programs nobody has read: in bubblewrap, with limits, and believed only when they came to their end.

``run.run_programs`` is the way in; ``isolation.find_isolation`` says how programs can be held here.
"""
