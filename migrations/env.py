"""Alembic's entry point: migrates on the connection that ``rag-sql upgrade`` passes, inside its transaction."""

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("Run `rag-sql upgrade`: it migrates, and rebuilds security and api, in one transaction.")

context.configure(connection=connection, version_table_schema="rag")
with context.begin_transaction():
    context.run_migrations()
