"""Signing for tenants: what an application does with its key, as a login that serves many tenants.

A signature is an HMAC-SHA256 over the login, the server's process, the beginning of the transaction, the tenant and the
right (``schema/README.md``, "Byte layouts"). It proves the tenant in that one transaction and nowhere else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Literal, Self

from rag_sql._evidence import number_field, text_field
from rag_sql.errors import InvalidRequest

__all__ = ["Right", "TenantKey", "signed_bytes"]

Right = Literal["read", "write"]


@dataclass(frozen=True)
class TenantKey:
    """A key of one login, as ``rag-sql tenant key add`` prints it: its id, a full stop, its secret in hexadecimal."""

    key_id: str
    secret: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a printed key. Raises InvalidRequest, which does not repeat the text, for what is none."""
        found = re.fullmatch(r"([0-9a-f]{12})\.([0-9a-f]{64})", text.strip())
        if found is None:
            raise InvalidRequest("this is no tenant key", hint="Make one: rag-sql tenant key add LOGIN")
        return cls(found[1], bytes.fromhex(found[2]))

    def __str__(self) -> str:
        return f"{self.key_id}.{self.secret.hex()}"

    def sign(self, login: str, backend_pid: int, begun_at: int, tenant: str, right: Right) -> str:
        """The assertion that ``rag_api.bind`` takes: tenant, right, key and signature."""
        signature = hmac.new(self.secret, signed_bytes(login, backend_pid, begun_at, tenant, right), hashlib.sha256)
        return f"{tenant}:{right}:{self.key_id}:{signature.hexdigest()}"


def signed_bytes(login: str, backend_pid: int, begun_at: int, tenant: str, right: str) -> bytes:
    """The bytes that are signed; `begun_at` is when the transaction began, in microseconds since 1970."""
    return (
        text_field("rag-sql tenant 1")
        + text_field(login)
        + number_field(backend_pid)
        + number_field(begun_at)
        + text_field(tenant)
        + text_field(right)
    )
