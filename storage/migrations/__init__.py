"""Our own Alembic history, beside Optuna's; run by ``storage/migrate.py``, never from a command line."""
