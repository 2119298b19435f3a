"""The verifier that lives inside vLLM's processes: the rule, the ledger, and the adapter for a model runner.

Imports nothing else of ours: ``rules`` decides, ``ledger`` remembers, ``vectors`` replays recorded decisions.
"""
