"""Traces: what was handed over, passage by passage, and the answer that came back.

Self-contained: the SQL stands beside this file and is frozen with it. It is run as bytes through the driver, because
Alembic's own ``execute`` reads ``:word`` as a parameter, even in a comment.
"""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create tables; their foreign keys lock packets and passages for a moment."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(Path(__file__).with_suffix(".sql").read_bytes())
