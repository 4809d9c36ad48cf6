"""The tables of the first release: tenants, documents, spans, contracts, packets, approvals.

Self-contained: the SQL stands beside this file and is frozen with it. It is run as bytes through the driver, because
Alembic's own ``execute`` reads ``:word`` as a parameter, even in a comment.
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything; nothing stands yet, so no lock waits for anyone."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(Path(__file__).with_suffix(".sql").read_bytes())
