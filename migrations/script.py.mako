"""${message}

Why, which locks it takes, and whether old code can run beside it.
"""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    ${upgrades if upgrades else "op.get_bind().connection.driver_connection.execute(b'')"}
