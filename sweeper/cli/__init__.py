"""The command line: one file a command; ``app`` puts them together, ``failures`` turns errors into exit codes.

Commands import what is heavy (Ray, vLLM, SQLAlchemy, Optuna) inside their functions, so that help is instant.
"""
