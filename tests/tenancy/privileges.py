"""The matrix of roles, objects and privileges, as text: ``python -m tests.tenancy.privileges`` writes it.

It stands in ``schema/privileges.txt``, made from the catalog of a fresh store and never by hand, so that who
changes a grant sees in the same change what it comes to; a test compares it with the catalog.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rag_sql import _resources
from rag_sql._embedded import SUPERUSER
from tests.tenancy.wall import Connection

FILE = "privileges.txt"

#: Columns of the matrix: every role of the store, in the order of schema/README.md, and everybody.
ROLES = ("owner", "binder", "search", "recorder", "reader", "curator", "publisher", "reviewer", "auditor", "PUBLIC")

_LETTERS = {
    "USAGE": "G",
    "CREATE": "C",
    "CONNECT": "N",
    "TEMPORARY": "T",
    "SELECT": "S",
    "INSERT": "I",
    "UPDATE": "U",
    "DELETE": "D",
    "TRUNCATE": "R",
    "REFERENCES": "F",
    "TRIGGER": "Q",
    "MAINTAIN": "M",
    "EXECUTE": "X",
}

_HEAD = """\
Roles, objects and privileges of a fresh store, from its catalog. Written by: python -m tests.tenancy.privileges

  *   owns the object, and may do with it whatever row-level security lets it
  G   usage   C create   N connect   T temporary   X execute
  S   select  I insert   U update    D delete      R truncate   F references   Q trigger   M maintain
  !   and may grant it on
  .   nothing

A capital was granted to the role itself; a small letter comes from a group that it is in. What PUBLIC has, all have.
Below a table: the columns that roles may insert, where the table as a whole was not granted.
After a function: definer, where it runs with the rights of its owner.
"""

# Objects with their privileges; `held` is what each role has and whether it was granted to the role itself.
_OBJECTS = """
with object(section, oid, name, owner, definer, acl) as (
  select 1, oid, 'the database of the store', datdba, false, coalesce(datacl, acldefault('d', datdba))
    from pg_database where datname = current_database()
  union all
  select 2, oid, nspname::text, nspowner, false, coalesce(nspacl, acldefault('n', nspowner))
    from pg_namespace where nspname ~ '^rag' or nspname = 'public'
  union all
  select case relkind when 'v' then 4 else 3 end, oid, oid::regclass::text, relowner, false,
      coalesce(relacl, acldefault('r', relowner))
    from pg_class where relnamespace::regnamespace::text ~ '^rag' and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  union all
  select 5, oid, oid::regproc::text, proowner, prosecdef, coalesce(proacl, acldefault('f', proowner))
    from pg_proc where pronamespace::regnamespace::text ~ '^rag'
), role(oid, name) as (
  select oid, substr(rolname, 5) from pg_roles where rolname ~ '^rag_'
  union all
  select 0, 'PUBLIC'
)
select
  (array['database', 'schema', 'table', 'view', 'function'])[o.section], o.oid, o.name, o.definer,
  r.name, r.oid = o.owner, h.privilege_type, h.direct, h.grantable
from object o
cross join role r
left join lateral (
  select a.privilege_type, bool_or(a.grantee = r.oid) as direct, bool_or(a.is_grantable) as grantable
  from aclexplode(o.acl) a
  where a.grantee <> o.owner and r.oid <> o.owner
    and (a.grantee = r.oid or (a.grantee <> 0 and r.oid <> 0 and pg_has_role(r.oid, a.grantee, 'usage')))
  group by 1
) as h on true
order by o.section, o.name collate "C", o.oid, r.name, h.privilege_type
"""

# Privileges on columns, as they were granted.
_COLUMNS = """
select attrelid::regclass::oid, lower(a.privilege_type), string_agg(attname, ' ' order by attname),
  case a.grantee when 0 then 'PUBLIC' else substr(a.grantee::regrole::text, 5) end
from pg_attribute join pg_class c on c.oid = attrelid cross join lateral aclexplode(attacl) a
where relnamespace::regnamespace::text ~ '^rag'
group by attrelid, a.privilege_type, a.grantee
order by 1, 2, 3, 4
"""

_MEMBERSHIPS = """
select member::regrole::text, string_agg(roleid::regrole::text
  || case when inherit_option then '' else ' (not inherited)' end
  || case when admin_option then ' (with admin option)' else '' end, ', ' order by roleid::regrole::text)
from pg_auth_members where member::regrole::text ~ '^rag_' group by 1 order by 1
"""


def matrix(connection: Connection) -> str:
    """The privileges that the catalog of a store has, as the text of the file."""
    found = connection.execute(_OBJECTS.encode()).fetchall()
    of_columns: dict[int, list[str]] = {}
    columns = connection.execute(_COLUMNS.encode()).fetchall()
    for (table, privilege, names), granted in groupby(columns, itemgetter(0, 1, 2)):
        roles = " and ".join(role for *_, role in granted)
        of_columns.setdefault(table, []).append(f"    {privilege} ({roles}): {names}")
    width = max(len(name) for _, _, name, *_ in found) + 1
    lines = [_HEAD]
    lines += [f"{member} is in {groups}" for member, groups in connection.execute(_MEMBERSHIPS.encode())]
    for section, of_section in groupby(found, itemgetter(0)):
        lines += ["", f"{section:{width}}" + "".join(f"{role:>10}" for role in ROLES)]
        for (oid, name, definer), cells in groupby(of_section, itemgetter(1, 2, 3)):
            letters = dict.fromkeys(ROLES, "")
            for *_, role, is_owner, privilege, direct, grantable in cells:
                letters[role] += "*" if is_owner else _cell(privilege, direct, grantable)
            line = f"{name:{width}}" + "".join(f"{text or '.':>10}" for text in letters.values())
            lines += [line + "  definer" * definer, *of_columns.get(oid, [])]
    return "\n".join(lines) + "\n"


def _cell(privilege: str | None, direct: bool, grantable: bool) -> str:
    if privilege is None:
        return ""
    letter = _LETTERS[privilege]
    return (letter if direct else letter.lower()) + "!" * bool(grantable)


def written() -> Path:
    """The file, of the matrix."""
    return _resources.find("schema") / FILE


def main() -> None:
    """Write the matrix of a fresh store."""
    from tests.conftest import installed, running_server

    with running_server() as server, installed(server).connect(SUPERUSER) as connection:
        written().write_text(matrix(connection), "utf-8")


if __name__ == "__main__":
    main()
