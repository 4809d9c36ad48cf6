"""Postings of one number for each passage, segments that are numbered.

Self-contained: the SQL stands beside this file and is frozen with it. It is run as bytes through the driver, because
Alembic's own ``execute`` reads ``:word`` as a parameter, even in a comment.
"""

from pathlib import Path

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Write the search index anew, which takes as long as its size asks; evidence is as it was."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(Path(__file__).with_suffix(".sql").read_bytes())
