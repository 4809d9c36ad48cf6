"""Succession: a document may name others that take its place.

Self-contained: the SQL stands beside this file and is frozen with it. It is run as bytes through the driver, because
Alembic's own ``execute`` reads ``:word`` as a parameter, even in a comment.
"""

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the table, empty, and have it end uses in the index."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(Path(__file__).with_suffix(".sql").read_bytes())
