"""What is decoded and how it is judged: problems, prompts, grading, and one leg from order to record.

Knows nothing of trials, storage or Ray; an engine (sweeper/engine) is given to it.
"""
