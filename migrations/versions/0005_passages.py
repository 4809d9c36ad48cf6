"""Passages: a version is cut where its outline says. What stands is one passage each, with its words.

Self-contained: the SQL stands beside this file and is frozen with it. It is run as bytes through the driver, because
Alembic's own ``execute`` reads ``:word`` as a parameter, even in a comment.
"""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create a table and fill it from every version, which nobody writes meanwhile; the words move there."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(Path(__file__).with_suffix(".sql").read_bytes())
