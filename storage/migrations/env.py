"""Alembic's entry point: migrates the connection it is handed, inside the transaction that is already open.

Knows nothing of URLs or configuration files; ``storage/migrate.py`` hands the connection over.
"""

from alembic import context

from storage.schema import VERSION_TABLE, is_ours, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    include_name=is_ours,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
