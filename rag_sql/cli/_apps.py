"""The program and its groups of commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from typer._completion_classes import completion_init
from typer.core import TyperGroup

from rag_sql.cli import _common

__all__ = [
    "COMPLETE",
    "Program",
    "app",
    "attribute_app",
    "contract_app",
    "key_app",
    "packet_app",
    "tenant_app",
    "trace_app",
]

#: The variable with which a shell's completion script asks the program.
COMPLETE = "_RAG_SQL_COMPLETE"

#: Wrong usage. typer brings click under a name of its own and exports of its errors only this one's child.
_UsageError: Any = typer.BadParameter.__base__


class Program(TyperGroup):
    """The whole program: every way in which a command can end is decided here, and none is a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C, also at a question, ends it with one line and the shells' code for it."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort):
            _common.err.print("interrupted")
            raise typer.Exit(130) from None

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        """Run the program and exit; the parameters are click's."""
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in words
        if COMPLETE in os.environ:
            completion_init()
        try:
            # Wrong usage is shown by typer, unless it is to be JSON.
            code = super().main(words, *rest, **{**options, "standalone_mode": not as_json})
        except _UsageError as error:
            hint = f"{error.ctx.command_path} --help" if error.ctx else ""
            _common.print_failure({"error": "UsageError", "message": error.format_message(), "hint": hint})
            sys.exit(error.exit_code)
        except Exception as error:
            if _common.debug:
                raise
            sys.exit(_common.report(error, as_json))
        sys.exit(code)


_EXIT_CODES = (
    "Exit codes: 0 sufficient, or done; 1 an error (said on standard error), or a check that failed (said on standard "
    "output); 2 wrong usage; 3 ask for evidence, or a person has to look; 4 unsupported question; "
    "5 approval missing, rejected or stale, or its evidence erased; 6 needs decision; 130 interrupted."
)

app = typer.Typer(
    cls=Program,
    help="A SQL-native evidence store for retrieval-augmented generation.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
tenant_app = typer.Typer(help="Tenants, and the logins bound to them.", no_args_is_help=True)
key_app = typer.Typer(help="Keys with which an application signs for many tenants as one login.", no_args_is_help=True)
attribute_app = typer.Typer(
    help="Attributes: what versions apply to and cases state, and their types.", no_args_is_help=True
)
contract_app = typer.Typer(help="Contracts: the question types that are supported.", no_args_is_help=True)
trace_app = typer.Typer(help="Traces: what was handed to a model, and what came back.", no_args_is_help=True)
packet_app = typer.Typer(help="Packets: what decisions relied on.", no_args_is_help=True)
app.add_typer(tenant_app, name="tenant")
tenant_app.add_typer(key_app, name="key")
app.add_typer(attribute_app, name="attribute")
app.add_typer(contract_app, name="contract")
app.add_typer(packet_app, name="packet")
app.add_typer(trace_app, name="trace")
