"""The program and its groups of commands."""

import typer

__all__ = ["app", "attribute_app", "contract_app", "packet_app", "tenant_app"]

app = typer.Typer(
    help="A SQL-native evidence store for retrieval-augmented generation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
tenant_app = typer.Typer(help="Tenants, and the logins bound to them.", no_args_is_help=True)
attribute_app = typer.Typer(
    help="Attributes: what versions apply to and cases state, and their types.", no_args_is_help=True
)
contract_app = typer.Typer(help="Contracts: the question types that are supported.", no_args_is_help=True)
packet_app = typer.Typer(help="Packets: what decisions relied on.", no_args_is_help=True)
app.add_typer(tenant_app, name="tenant")
app.add_typer(attribute_app, name="attribute")
app.add_typer(contract_app, name="contract")
app.add_typer(packet_app, name="packet")
