"""The mistakes that can be made at the command line, one row each: what is typed, and what is said.

This file is a table, and long for that reason alone. ``test_bad_inputs.py`` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rag_sql import _resources
from rag_sql._embedded import SUPERUSER
from tests.conftest import QUESTION

NOBODY = "00000000-0000-0000-0000-000000000000"
NAME = "must be a text of 1 to 200 bytes, without control characters or outer spaces"
CHARACTERS = "Copy the quotation from the body character by character; line breaks and typographic quotes count."
IMMUTABLE = "A version is immutable: give the changed document the next version number."
WHOLE = "Quote the whole character: accents, joiners, variation selectors and skin tones belong to the one before."
MISSING = "Load the missing evidence, decide again and record a new packet."
LIST = "List the tenants and their logins: rag-sql tenant list"
FULL_CLAIM = "A claim has text, fact, tenant, document_id, version and span_id, and nothing else."
REPEAT = "What was not committed is not stored. When the server answers again, look what is there, and repeat."
EVALUATION = _resources.find("seed") / "travel" / "evaluation.yaml"
BODY = "body: must be a text of 1 byte to 10 MiB"
VERSION = "version: must be a whole number from 1 to 2147483647"


@dataclass(frozen=True)
class Mistake:
    """A row: what is typed, and what is said.

    In `arguments` and `message`, ``{file}`` stands for the file with `text`, ``{packet}`` and ``{insufficient}`` for
    packets of acme, ``{foreign}`` for one of northwind, ``{shown}`` and ``{shown_all}`` for what a reviewer is shown.
    What a message is None of, or a detail, is worded by others.
    """

    what: str
    arguments: str
    error: str
    sqlstate: str | None
    message: str | None
    hint: str = ""
    detail: str | None = ""
    line: int | None = None
    text: str = ""
    name: str = "a.md"
    login: str = "acme_curator"
    exit: int = 1


def load(what: str, text: str, line: int, sqlstate: str | None, reason: str, hint: str = "", **rest: Any) -> Mistake:
    """A file that is refused when it is loaded."""
    return Mistake(
        what,
        "load {file} -t acme --atomic",
        "FileRefused",
        sqlstate,
        f"{{file}}:{line}: {reason}",
        hint,
        line=line,
        text=text,
        **rest,
    )


def spans(*lines: str) -> str:
    return "---\nid: A\nspans:\n  - id: s\n    fact: f\n" + "".join(f"    {line}\n" for line in lines) + "---\n"


def contract(what: str, text: str, line: int, reason: str, sqlstate: str | None = "RS030") -> Mistake:
    """A contract that is refused when it is added."""
    problem = f'contract "q" version 1 is invalid: {reason}' if sqlstate else reason
    message = f"{{file}}:{line}: {problem}"
    return Mistake(
        what,
        "contract add {file} -t acme",
        "FileRefused",
        sqlstate,
        message,
        line=line,
        text=text,
        name="c.yaml",
    )


FACT = """\
question: q
version: 1
case: []
facts:
  - fact: f
    propositions:
      - quote: q
        clauses: [c]
"""

DOCUMENTS = [
    load(
        "malformed YAML",
        "---\nid: [A\n---\nText.\n",
        3,
        None,
        "not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'",
    ),
    load("a key twice", "---\nid: A\nid: B\n---\nText.\n", 3, None, "the key 'id' stands more than once"),
    load(
        "no end of the front matter",
        "---\nid: A\n",
        1,
        None,
        "the front matter has no end",
        "Close it with a line of three hyphens.",
    ),
    load(
        "a key that is nearly one of ours",
        "---\nid: A\napplies-to: {model: G2}\n---\nText.\n",
        3,
        None,
        "applies-to is no key; is applies_to meant?",
        "Keep it under metadata if it is not.",
    ),
    load(
        "a key that is misspelt",
        "---\nid: A\naplies_to: {model: G2}\n---\nText.\n",
        3,
        None,
        "aplies_to is no key; is applies_to meant?",
        "Keep it under metadata if it is not.",
    ),
    load(
        "successors under another name",
        "---\nid: A\nsuperseded_by: B\n---\nText.\n",
        3,
        None,
        "superseded_by is no key; is successors meant?",
        "Keep it under metadata if it is not.",
    ),
    load(
        "a document that takes its own place",
        "---\nid: A\nsuccessors:\n  - B\n  - A\n---\nText.\n",
        5,
        "RS020",
        "successors.1: must be another document: none takes its own place",
    ),
    load(
        "a time without successors",
        "---\nid: A\nsuperseded_from: 2026-01-01\n---\nText.\n",
        3,
        "RS020",
        "superseded_from: is the time of successors, and there are none",
    ),
    load(
        "another tenant's document",
        "---\nid: A\ntenant: northwind\n---\nText.\n",
        3,
        None,
        "is a document of tenant 'northwind', not of 'acme'",
    ),
    load("a NUL character", "Text\0.\n", 1, None, "contains a NUL character"),
    load(
        "JSON that is none",
        '{"id": "A", "version": 1, "body": "x"}\nnot json\n',
        2,
        None,
        "not JSON: Expecting value: line 1 column 1 (char 0)",
        name="a.jsonl",
    ),
    load(
        "JSON without a body",
        '{"id": "A", "version": 1, "body": "x"}\n{"id": "B", "version": 1}\n',
        2,
        "RS020",
        BODY,
        name="a.jsonl",
    ),
    load("a body over 10 MiB", "w" * (10 * 1024 * 1024 + 1), 1, "RS020", BODY),
    # One long word is no mistake: it is kept as its hash. What a passage can have too much of is distinct words.
    Mistake(
        "words over 1 MiB in one passage",
        "load {file} -t acme --atomic --passage-limit 9999999",
        "FileRefused",
        "RS020",
        "{file}:1: body: its distinct words exceed 1 MiB; cut it into passages, or split the document",
        line=1,
        text=" ".join(f"w{n}" for n in range(200_000)),
    ),
    load("an id over 200 bytes", f"---\nid: {'x' * 201}\n---\nText.\n", 2, "RS020", f"id: {NAME}"),
    load(
        "a title over 1,000 bytes",
        f"---\ntitle: {'é' * 501}\n---\nText.\n",
        2,
        "RS020",
        "title: must be a text of at most 1000 bytes",
    ),
    load("version 0", "---\nid: A\nversion: 0\n---\nText.\n", 3, "RS020", VERSION),
    load("a version in words", "---\nid: A\nversion: one\n---\nText.\n", 3, "RS020", VERSION),
    load(
        "a version changed in place",
        "---\nid: HOLD-7\nversion: 2\n---\nOther text.\n",
        3,
        "RS021",
        '"HOLD-7" version 2 exists with other content: body, title',
        IMMUTABLE,
    ),
    load(
        "a quotation that is absent",
        spans("quote: Not there") + "Text.\n",
        6,
        "RS023",
        'span "s" quotes text that is not in the body of "A" version 1',
        CHARACTERS,
        detail="Quotation: Not there",
    ),
    load(
        "a quotation that is ambiguous",
        spans("quote: t") + "t t\n",
        6,
        "RS024",
        'span "s" quotes text that occurs more than once in "A" version 1',
        "Quote more of the sentence, or name the occurrence (1, 2, ...).",
        detail="Quotation: t",
    ),
    load(
        "an occurrence that is not there",
        spans("quote: t", "occurrence: 3") + "t t\n",
        6,
        "RS023",
        'span "s" quotes text that does not occur 3 times in the body of "A" version 1',
        CHARACTERS,
        detail="Quotation: t",
    ),
    load(
        "an empty quotation",
        spans('quote: ""') + "Text.\n",
        6,
        "RS020",
        "spans.0.quote: must be a text of 1 byte to 1 MiB",
    ),
    load(
        "a quotation without its accent",
        spans("quote: cafe") + "The cafe\u0301 is open.\n",
        6,
        "RS026",
        'span "s" quotes part of a character of "A" version 1',
        WHOLE,
        detail="Quotation: cafe",
    ),
    Mistake(
        "a tenant that nobody added",
        "load {file} -t nowhere",
        "TenantNotBound",
        "RS001",
        'tenant "nowhere" is not bound to login "acme_curator"',
        "Ask the administrator of the store for: rag-sql tenant grant nowhere acme_curator",
        text="Text.\n",
    ),
    Mistake(
        "another's tenant, in the same words",
        "load {file} -t northwind",
        "TenantNotBound",
        "RS001",
        'tenant "northwind" is not bound to login "acme_curator"',
        "Ask the administrator of the store for: rag-sql tenant grant northwind acme_curator",
        text="Text.\n",
    ),
    Mistake(
        "a tenant's curator writes public",
        "load {file} -t public",
        "TenantNotBound",
        "RS001",
        'tenant "public" is not bound to login "acme_curator"',
        "Ask the administrator of the store for: rag-sql tenant grant public acme_curator",
        text="Text.\n",
    ),
    Mistake(
        "a curator bound to public writes it",
        "load {file} -t public",
        "NotAllowed",
        "RS003",
        'login "public_curator" may not write for tenant "public"',
        "Ask the administrator of the store for: grant rag_publisher to public_curator;",
        text="Text.\n",
        login="public_curator",
    ),
    Mistake(
        "a file that is not there",
        "load /nowhere.md -t acme",
        "FileRefused",
        None,
        "/nowhere.md: there is no such file or folder",
    ),
    Mistake(
        "a file of another kind",
        "load {file} -t acme",
        "FileRefused",
        None,
        "{file}: neither Markdown (.md, .markdown) nor JSON lines (.jsonl, .ndjson)",
        text="x",
        name="a.txt",
    ),
]

SPANS = [
    Mistake(
        "a span of no version",
        "curate {file} -t acme",
        "FileRefused",
        "RS022",
        '{file}:2: no version 9 of document "HOLD-7"',
        "Spans are added for the tenant that the document belongs to, after the document was loaded.",
        line=2,
        name="s.yaml",
        text="- document: HOLD-7\n  version: 9\n  span: n\n  fact: f\n  quote: audit hold\n",
    ),
    Mistake(
        "a span changed in place",
        "curate {file} -t acme",
        "FileRefused",
        "RS025",
        '{file}:3: span "s1" of "HOLD-7" version 2 exists with other content: fact, quote',
        "A span is immutable: give the changed one another id.",
        line=3,
        name="s.yaml",
        text="- document: HOLD-7\n  version: 2\n  span: s1\n  fact: f\n  quote: audit hold\n",
    ),
    Mistake(
        "a key that no span has",
        "curate {file} -t acme",
        "FileRefused",
        "RS020",
        "{file}:6: clauses: unknown key; a span has document, version, span, fact, quote and occurrence",
        line=6,
        name="s.yaml",
        text="- document: HOLD-7\n  version: 2\n  span: n\n  fact: f\n  quote: audit hold\n  clauses: [c]\n",
    ),
    Mistake(
        "neither a file nor a question",
        "curate -t acme",
        "UsageError",
        None,
        "Invalid value for FILE: name a file of spans, a question with --check, or --carry",
        "root curate --help",
        exit=2,
    ),
    Mistake(
        "neither files nor an instant to look back to",
        "impact -t acme",
        "UsageError",
        None,
        "Invalid value for PATH: name files that would be loaded, or an instant with --since",
        "root impact --help",
        exit=2,
    ),
]

CONTRACTS = [
    contract(
        "malformed YAML",
        "question: q\nversion: 1\ncase: [\n",
        4,
        "not YAML: while parsing a flow node, expected the node content, but found '<stream end>'",
        sqlstate=None,
    ),
    contract(
        "a clause without a proposition",
        FACT.replace("        clauses", "    clauses"),
        8,
        "facts.0.clauses: unknown key; a fact has fact and propositions",
    ),
    contract(
        "a proposition without a clause",
        FACT.replace("        clauses: [c]\n", ""),
        7,
        "facts.0.propositions.0.clauses: must be a list of at least one licensed clause",
    ),
    contract(
        "a proposition without a letter",
        FACT.replace("quote: q", "quote: ' - '"),
        7,
        "facts.0.propositions.0.quote: must have a letter or a digit",
    ),
    # A contract declares a fact where its propositions stand; nothing else can name one. The nearest mistakes:
    contract(
        "a fact required beside the facts",
        FACT + "required: [g]\n",
        9,
        "required: unknown key; a contract has case and facts, and decision, keep and ranking where they are needed",
    ),
    contract(
        "a fact without a name",
        FACT.replace("- fact: f\n    prop", "- prop"),
        5,
        "facts.0.fact: must be a text of 1 to 200 bytes",
    ),
    contract("a fact twice", FACT + FACT[FACT.index("  - fact") :], 9, "facts.1.fact: stands more than once: f"),
    Mistake(
        "version 0",
        "contract add {file} -t acme",
        "FileRefused",
        None,
        "{file}:2: version must be a whole number from 1",
        line=2,
        name="c.yaml",
        text=FACT.replace("version: 1", "version: 0"),
    ),
    Mistake(
        "a contract changed in place",
        "contract add {file} -t public",
        "FileRefused",
        "RS031",
        f'{{file}}:2: contract "{QUESTION}" version 1 exists with other content',
        "A contract version is immutable: give the changed contract the next version number.",
        line=2,
        name="c.yaml",
        text=FACT.replace("question: q", f"question: {QUESTION}"),
        login="publisher",
    ),
    Mistake(
        "a tenant's curator writes public",
        "contract add {file} -t public",
        "TenantNotBound",
        "RS001",
        'tenant "public" is not bound to login "acme_curator"',
        "Ask the administrator of the store for: rag-sql tenant grant public acme_curator",
        name="c.yaml",
        text=FACT,
    ),
    Mistake(
        "a question that nobody supports",
        "contract show nope -t acme",
        "UnsupportedQuestion",
        "RS013",
        "no contract supports the question 'nope'",
        exit=4,
    ),
]

NO_WORD = ("InvalidRequest", "RS010", "the query has no word", "Words are runs of letters, digits and underscores.")
ATTRIBUTES = "The contract's case attributes are: model, firmware."


def asks(
    what: str,
    change: str,
    error: str,
    sqlstate: str | None,
    message: str,
    hint: str = "",
    *,
    verb: str = "ask",
    exit: int = 1,  # noqa: A002 - named as the field
) -> Mistake:
    """A question to the gateway's contract, with options that override those before."""
    words = f"{verb} {QUESTION} -t acme -q gateway -c model=G2 -c firmware=2.4.1 {change}"
    return Mistake(what, words, error, sqlstate, message, hint, login="acme_reader", exit=exit)


QUESTIONS = [
    asks("an empty query", "-q {empty}", *NO_WORD),
    asks("a query of punctuation", "-q --,!?", *NO_WORD),
    asks("a query of punctuation, to be explained", "-q --,!?", *NO_WORD, verb="explain"),
    asks("a query of punctuation, to be recorded", "-q --,!? --record", *NO_WORD),
    asks("K of 0", "-k 0", "InvalidRequest", "RS010", "K must be from 1 to 1000, not 0"),
    asks("K of 1,001", "-k 1001", "InvalidRequest", "RS010", "K must be from 1 to 1000, not 1001"),
    asks(
        "K beyond a machine's number",
        "-k 99999999999",
        "InvalidRequest",
        "RS010",
        "K must be a whole number from 1, not 99999999999",
    ),
    asks(
        "a version of the contract that is not there",
        "--contract-version 9",
        "UnknownContractVersion",
        "RS012",
        f'contract "{QUESTION}" has no version 9',
        "List the versions: select * from rag_api.contract;",
    ),
    asks(
        "an attribute that the contract has not",
        "-c region=EU",
        "InvalidCase",
        "RS011",
        'the case does not fit the contract: attribute "region" is not one of the contract\'s',
        ATTRIBUTES,
    ),
    asks(
        "an attribute twice",
        "-c model=G3",
        "UsageError",
        None,
        "Invalid value for --case: an attribute is stated more than once",
        "root ask --help",
        exit=2,
    ),
    asks(
        "an attribute without a value",
        "-c region=",
        "UsageError",
        None,
        "Invalid value for --case: 'region=' is not KEY=VALUE",
        "root ask --help",
        exit=2,
    ),
    asks(
        "a value over 200 bytes",
        f"-c region={'x' * 201}",
        "InvalidCase",
        "RS011",
        'the case does not fit the contract: attribute "region" is not one of the contract\'s;'
        ' attribute "region" must be a text of 1 to 200 bytes',
        ATTRIBUTES,
    ),
    Mistake(
        "an attribute that is not stated",
        f"ask {QUESTION} -t acme -q x -c model=G2",
        "InvalidCase",
        "RS011",
        'the case does not fit the contract: attribute "firmware" is not stated',
        ATTRIBUTES,
        login="acme_reader",
    ),
    Mistake(
        "a question that nobody supports, to be recorded",
        "ask nope -t acme -q x --record",
        "UnsupportedQuestion",
        "RS013",
        'no contract supports the question "nope"',
        "Adding documents cannot make a question supported; it needs a contract.",
        login="acme_reader",
        exit=4,
    ),
    Mistake(
        "a packet without a tenant",
        f"ask {QUESTION} -q x --record",
        "TenantRequired",
        "RS002",
        "no tenant is bound",
        "Bind one in this transaction: select rag_api.bind(p_tenant => 'acme').",
        login="acme_reader",
    ),
    Mistake(
        "a tenant that is empty",
        f"ask {QUESTION} -q x -t {{empty}}",
        "UsageError",
        None,
        "Invalid value for '--tenant' / '-t': is empty",
        "root ask --help",
        exit=2,
    ),
    Mistake(
        "a login in no group",
        f"ask {QUESTION} -q x",
        "NotAllowed",
        "RS003",
        "this login is in none of the store's groups",
        "Ask the administrator of the store for: grant rag_reader to LOGIN;",
        login="outsider",
    ),
]

PACKETS = [
    Mistake(
        "a packet id that is none",
        "packet show 42 -t acme",
        "UsageError",
        None,
        "Invalid value: '42' is no id: it looks like 43b36142-f71a-4746-859c-6d21c99b26b1",
        "root packet show --help",
        exit=2,
    ),
    Mistake(
        "a packet that is not there",
        f"packet show {NOBODY} -t acme",
        "PacketNotFound",
        "RS050",
        f"there is no packet {NOBODY}",
    ),
    Mistake(
        "another tenant's packet, in the same words",
        "packet show {foreign} -t acme",
        "PacketNotFound",
        "RS050",
        "there is no packet {foreign}",
    ),
    Mistake(
        "another tenant's packet, to be approved",
        "approve {foreign} -t acme --claims {file} --shown 00",
        "PacketNotFound",
        "RS050",
        "there is no packet {foreign}",
        name="c.json",
        text="{claims}",
        login="acme_reviewer",
    ),
    Mistake(
        "a document that is no packet",
        "packet verify {file}",
        "UsageError",
        None,
        "Invalid value for PATH: Expecting value: line 1 column 1 (char 0)",
        "root packet verify --help",
        text="x",
        name="p.json",
        exit=2,
    ),
    Mistake(
        "JSON that is no packet",
        "packet verify {file}",
        "UsageError",
        None,
        "Invalid value for PATH: not a packet: contract is missing",
        "root packet verify --help",
        text="{}",
        name="p.json",
        exit=2,
    ),
    Mistake(
        "an approval of an insufficient packet",
        "approve {insufficient} -t acme --claims {file} --shown {shown}",
        "EvidenceInsufficient",
        "RS051",
        "packet {insufficient} is not sufficient: required facts are missing",
        MISSING,
        name="c.json",
        text="{claims}",
        login="acme_reviewer",
    ),
    Mistake(
        "an insufficient packet, whose draft is to be made",
        "approve {insufficient} -t acme",
        "EvidenceInsufficient",
        "RS051",
        "packet {insufficient} is not sufficient: required facts are missing",
        MISSING,
        detail="Missing: audit-constraint",
        login="acme_reviewer",
    ),
    Mistake(
        "a digest of something else",
        "approve {packet} -t acme --shown zz",
        "PresentationChanged",
        "RS052",
        "what was shown is not what would be shown now",
        "Look again: run the command without --shown.",
        login="acme_reviewer",
    ),
    Mistake(
        "a draft that is not JSON",
        "approve {packet} -t acme --claims {file}",
        "InvalidClaims",
        "RS040",
        "{file} is not JSON: Expecting value: line 1 column 1 (char 0)",
        name="c.json",
        text="x",
        login="acme_reviewer",
    ),
    Mistake(
        "a draft of something else",
        "approve {packet} -t acme --claims {file}",
        "InvalidClaims",
        "RS040",
        "{file} is not an array of claims",
        FULL_CLAIM,
        name="c.json",
        text='[{"text": "x"}]',
        login="acme_reviewer",
    ),
    Mistake(
        "a draft without a claim",
        "approve {packet} -t acme --claims {file}",
        "InvalidClaims",
        "RS040",
        "claims must be a JSON array of at least one claim",
        name="c.json",
        text="[]",
        login="acme_reviewer",
    ),
    Mistake(
        "a reviewer whose name is a book",
        f"approve {{packet}} -t acme --shown {{shown_all}} --as {'x' * 201}",
        "InvalidRequest",
        "RS010",
        "a reviewer's name has 1 to 200 bytes, not 201",
        login="acme_reviewer",
    ),
    Mistake(
        "a note that is a book",
        f"approve {{packet}} -t acme --shown {{shown_all}} --note {'x' * 4001}",
        "InvalidRequest",
        "RS010",
        "the note has 4001 bytes; 4000 is the most",
        login="acme_reviewer",
    ),
    Mistake(
        "a reader who approves",
        "approve {packet} -t acme --shown {shown_all}",
        "InsufficientPrivilege",
        "42501",
        "permission denied for function approve",
        login="acme_reader",
    ),
    Mistake(
        "a check that decides",
        "approve {packet} -t acme --check --reject",
        "UsageError",
        None,
        "Invalid value for --check: decides nothing: it goes with none of --reject, --shown, --as and --note",
        "root approve --help",
        exit=2,
    ),
    Mistake(
        "a check of what nobody decided",
        "approve {packet} -t acme --check",
        "NoApproval",
        "RS060",
        "nobody has approved this draft on the evidence of packet {packet}",
        login="acme_reader",
        exit=5,
    ),
]

ADMINISTRATION = [
    Mistake(
        "a tenant whose name is none",
        "tenant add Acme!",
        "InvalidRequest",
        "RS010",
        '"Acme!" is no name for a tenant',
        "A name is a lower-case letter, then letters, digits and hyphens; at most 63.",
        login=SUPERUSER,
    ),
    Mistake(
        "a login that is not there",
        "tenant grant acme nobody-here",
        "UnknownLogin",
        "RS083",
        'there is no login "nobody-here"',
        'Create it first: create role "nobody-here" login;',
        login=SUPERUSER,
    ),
    Mistake(
        "a tenant that is not there",
        "tenant grant nowhere acme_reader",
        "UnknownLogin",
        "RS083",
        'there is no tenant "nowhere"',
        "Add it first: rag-sql tenant add nowhere",
        login=SUPERUSER,
    ),
    Mistake(
        "a login that nothing holds",
        f"tenant grant acme {SUPERUSER}",
        "UnknownLogin",
        "RS083",
        f'row-level security does not hold login "{SUPERUSER}"',
        "Grant the tenant to an ordinary login.",
        detail=None,
        login=SUPERUSER,
    ),
    Mistake(
        "a group that is none",
        "tenant grant acme acme_reader -g auditor",
        "UsageError",
        None,
        "Invalid value for --group: 'auditor' is not one of reader, curator, publisher, reviewer",
        "root tenant grant --help",
        login=SUPERUSER,
        exit=2,
    ),
    Mistake(
        "a login to revoke that is not there",
        "tenant revoke acme nobody-here",
        "UnknownLogin",
        "RS083",
        'there is no login "nobody-here"',
        LIST,
        login=SUPERUSER,
    ),
    Mistake(
        "a tenant to revoke that is not there",
        "tenant revoke nowhere acme_reader",
        "UnknownLogin",
        "RS083",
        'there is no tenant "nowhere"',
        LIST,
        login=SUPERUSER,
    ),
    Mistake(
        "an auditor that would act for a tenant",
        "tenant grant acme auditor -g reader",
        "UnknownLogin",
        "RS083",
        'login "auditor" is an auditor, and an auditor acts for no tenant',
        "Use another login, or: revoke rag_auditor from auditor;",
        "An auditor reads every tenant; what readers are kept from would be kept from its audits too.",
        login=SUPERUSER,
    ),
    Mistake(
        "a key for an auditor",
        "tenant key add auditor",
        "UnknownLogin",
        "RS083",
        'login "auditor" is an auditor, and an auditor acts for no tenant',
        "Use another login, or: revoke rag_auditor from auditor;",
        detail=None,
        login=SUPERUSER,
    ),
    Mistake(
        "a key for a login that is not there",
        "tenant key add nobody-here",
        "UnknownLogin",
        "RS083",
        'there is no login "nobody-here"',
        'Create it first: create role "nobody-here" login;',
        login=SUPERUSER,
    ),
    Mistake(
        "a key that is valid for no day",
        "tenant key add service --days 0",
        "InvalidRequest",
        "RS010",
        "a key is valid for 1 to 3650 days, not 0",
        login=SUPERUSER,
    ),
    Mistake(
        "a key to revoke that is not there",
        "tenant key revoke 000000000000",
        "UnknownKey",
        "RS084",
        'there is no key "000000000000"',
        "List the keys: rag-sql tenant key list",
        login=SUPERUSER,
    ),
    Mistake(
        "an ordinary login that makes itself a key",
        "tenant key add service",
        "NotAllowed",
        "RS003",
        "this login administers no store",
        "It needs the login that installed the store.",
        login="service",
    ),
    Mistake(
        "an ordinary login that administers",
        "tenant add other",
        "NotAllowed",
        "RS003",
        "this login administers no store",
        "It needs the login that installed the store.",
        login="acme_curator",
    ),
    Mistake(
        "a command that is none", "nonsense", "UsageError", None, "No such command 'nonsense'.", "root --help", exit=2
    ),
    Mistake(
        "a URL that is none",
        "status --database-url nonsense",
        "UsageError",
        None,
        "Invalid value: not a database URL: postgresql://login@host/database",
        "root status --help",
        exit=2,
    ),
    Mistake(
        "a URL of another database",
        "status --database-url sqlite:///x",
        "UnsuitableDatabase",
        "RS082",
        "a store is reached through psycopg 3, not 'sqlite'",
        "Write the URL as postgresql://login@host/database.",
    ),
    Mistake(
        "a server that is not there",
        "status --database-url postgresql://nobody@127.0.0.1:1/none",
        "ConnectionLost",
        None,
        None,
        REPEAT,
    ),
]


def evaluation(
    what: str, text: str, line: int, reason: str, hint: str = "", sqlstate: str | None = None, **rest: Any
) -> Mistake:
    """An evaluation set that is refused."""
    return Mistake(
        what,
        "eval {file} -t acme",
        "FileRefused",
        sqlstate,
        f"{{file}}:{line}: {reason}",
        hint,
        line=line,
        text=text,
        name="e.yaml",
        login="acme_reader",
        **rest,
    )


def a_case(*lines: str, question: str = QUESTION, facts: str = "{model: G2, firmware: 2.4.1}") -> str:
    """A set with one case; what is put after it begins on line 9."""
    return (
        "passages:\n"
        "  hold: {document: HOLD-7, version: 2, quote: While an audit hold is active}\n"
        "cases:\n"
        "  - id: a\n"
        f"    question: {question}\n"
        "    query: telemetry hold rollback\n"
        f"    case: {facts}\n"
        "    required: [hold]\n" + "".join(f"    {line}\n" for line in lines)
    )


KEYS = (
    "The keys are: id, question, query, outcome, kind, contract_version, case, required, forbidden, answer, k, budget,"
    " neighbours."
)
COVERED = "outcome: SufficientForTemplate"
OUTCOMES = "SufficientForTemplate, AskForEvidence, NeedsDecision, UnsupportedQuestion"
WITHIN = "Copy it character by character from within one passage, as much as stands there alone."

EVALUATIONS = [
    Mistake(
        "a set that is not there",
        "eval nowhere.yaml -t acme",
        "FileRefused",
        None,
        "nowhere.yaml: cannot be read: No such file or directory",
    ),
    evaluation("a set that is a list", "- id: a\n", 1, "an evaluation set must be a mapping"),
    evaluation("a set without cases", "k: 2\n", 1, "cases is missing"),
    evaluation("a set of no case", "k: 2\ncases: []\n", 2, "cases must be a list of at least one"),
    evaluation(
        "an expectation that is misspelt", a_case(COVERED, "forbiden: [hold]"), 10, "forbiden is no key here", KEYS
    ),
    evaluation(
        "an expectation left empty",
        a_case(COVERED, "forbidden:"),
        10,
        "forbidden has no value",
        "Give it one, or leave the key out.",
    ),
    evaluation("a case without an outcome", a_case(), 4, "outcome is missing"),
    evaluation("an outcome that is none", a_case("outcome: Sufficient"), 9, f"'Sufficient' is none of: {OUTCOMES}"),
    evaluation(
        "a case that needs nothing",
        a_case(COVERED).replace("    required: [hold]\n", ""),
        4,
        "required is missing",
        "Name the passages that the answer needs.",
    ),
    evaluation(
        "a name of no passage", a_case(COVERED, "forbidden: [old]"), 10, "'old' names no passage", "There are: hold."
    ),
    evaluation(
        "a citation of what is not required",
        a_case(COVERED, "answer:", "  cites: [hold, other]"),
        11,
        "'other' is not among the required passages",
        "There are: hold.",
    ),
    evaluation(
        "a verdict that the audit does not know",
        a_case(COVERED, "answer:", "  audit: accepted"),
        11,
        "'accepted' is none of: contradicted, unsupported, unknown_citation, uncited, review, unchecked, no_finding",
    ),
    evaluation("a K that is no number", a_case(COVERED, "k: few"), 10, "k must be a whole number"),
    evaluation(
        "passages for an unsupported question",
        a_case("outcome: UnsupportedQuestion"),
        8,
        "nothing is retrieved for an unsupported question, so required expects nothing",
    ),
    evaluation(
        "a case twice",
        a_case(COVERED) + a_case(COVERED).partition("cases:\n")[2],
        10,
        "the id 'a' stands more than once",
    ),
    evaluation(
        "a passage by a quotation that stands nowhere",
        a_case(COVERED).replace("While", "Once"),
        2,
        "hold: the quotation stands in no passage of version 2 of HOLD-7",
        WITHIN,
    ),
    evaluation(
        "a passage of another tenant's version",
        a_case(COVERED).replace("HOLD-7, version: 2", "PRIVATE, version: 1"),
        2,
        "hold: there is no version 1 of PRIVATE that acme can see",
    ),
    evaluation(
        "a case that lacks a fact",
        a_case(COVERED, facts="{model: G2}"),
        4,
        "case 'a': the case does not fit the contract: attribute \"firmware\" is not stated",
        "The contract's case attributes are: model, firmware.",
        sqlstate="RS011",
    ),
    evaluation(
        "a case of a contract version that is not there",
        a_case(COVERED, "contract_version: 9"),
        4,
        f"case 'a': contract \"{QUESTION}\" has no version 9",
        "List the versions: select * from rag_api.contract;",
        sqlstate="RS012",
    ),
    evaluation(
        "a case with a K of zero",
        a_case(COVERED, "k: 0"),
        4,
        "case 'a': K must be from 1 to 1000, not 0",
        sqlstate="RS010",
    ),
    evaluation(
        "a case with a budget of nothing",
        a_case(COVERED, "budget: 0"),
        4,
        "case 'a': the budget must be from 1 to 10000000 tokens, neighbours from 0 to 10, candidates from 0 to 1000",
        sqlstate="RS010",
    ),
    *(
        Mistake(
            what,
            f"eval {EVALUATION} -t acme --answers {{file}}",
            "FileRefused",
            None,
            f"{{file}}:{line}: {reason}",
            line=line,
            text=text,
            name="a.jsonl",
        )
        for what, text, line, reason in (
            ("answers that are not JSON", "no\n", 1, "not JSON: Expecting value: line 1 column 1 (char 0)"),
            ("an answer to no case", '{"id": "x", "answer": "It is."}\n', 1, "no case has the id 'x'"),
            (
                "two answers to a case",
                '{"id": "too-late", "answer": "a"}\n\n{"id": "too-late", "answer": "b"}\n',
                3,
                "the case 'too-late' has more than one answer",
            ),
            (
                "an answer that is no text",
                '{"id": "too-late", "answer": null}\n',
                1,
                "a line must be an object with the keys id and answer, both texts",
            ),
        )
    ),
]

MISTAKES = [*DOCUMENTS, *SPANS, *CONTRACTS, *QUESTIONS, *PACKETS, *EVALUATIONS, *ADMINISTRATION]
