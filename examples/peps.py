"""Python Enhancement Proposals as documents: ``python examples/peps.py FOLDER | rag-sql load - --tenant T``.

A PEP that names those which supersede it names them as its successors, so that it is never used and ``rag-sql explain``
says what to read instead. Another that nobody pursues any more (rejected, withdrawn, deferred) applies to questions
about PEPs of its status alone: ``--case status=Rejected``.
"""

import email
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

PURSUED = {"Draft", "Provisional", "Accepted", "Active", "Final"}


def document(path: Path) -> dict[str, Any]:
    """A PEP as ``rag-sql load`` takes it."""
    pep = email.message_from_string(path.read_text("utf-8"))
    found = {
        "id": f"PEP-{pep['PEP']}",
        "title": pep["Title"],
        "published": f"{datetime.strptime(pep['Created'], '%d-%b-%Y'):%Y-%m-%d}",
        "source": f"https://peps.python.org/{path.stem}/",
        "language": "english",
        "metadata": {"status": pep["Status"], "type": pep["Type"]},
        "body": pep.get_payload(),
    }
    if successors := pep["Superseded-By"]:
        found["successors"] = [f"PEP-{number.strip()}" for number in successors.split(",")]
    elif pep["Status"] not in PURSUED:
        found["applies_to"] = {"status": [pep["Status"]]}
    return found


for file in sorted(Path(sys.argv[1]).rglob("pep-[0-9]*.rst")):
    print(json.dumps(document(file), ensure_ascii=False))
