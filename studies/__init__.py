"""What a study is and what it decides: the vocabulary, the plan of measurement, the frontier.

Knows nothing of Ray, vLLM, Optuna or SQLAlchemy; every function here takes values and gives values.

Reading order: ``controls`` (what is chosen), ``legs`` (what is measured), ``protocol`` (which leg comes
next), ``measurement`` (what the legs say), ``frontier`` (which cells are worth having).
"""
