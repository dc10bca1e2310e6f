"""`recordwise ledger`."""

from __future__ import annotations

from typing import Annotated

import typer

from recordwise.cli.options import Json, Quiet, print_json, tell

Place = Annotated[str, typer.Argument(help="A path (SQLite) or a URL (postgresql://…).")]

ledger_app = typer.Typer(no_args_is_help=True, help="What was spent, when, on what, and what is left.")


@ledger_app.command("open")
def ledger_open(
    place: Place,
    budget: Annotated[str, typer.Option(help="A name for the records it protects: one budget per set of records.")],
    epsilon: Annotated[float, typer.Option(help="What all releases together may cost.")],
    delta: Annotated[float, typer.Option(help="0 for pure differential privacy.")] = 0.0,
    neighbours: Annotated[str, typer.Option(help="replace or add-remove.")] = "replace",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Open a budget. Its terms never change afterwards."""
    from recordwise.privacy.guarantee import Neighbours, exact, one_of
    from recordwise.privacy.ledger import Budget, Ledger

    asked = Budget(  # refused, if it is a mistake, before a ledger is made for it
        name=budget,
        epsilon=exact(epsilon, "epsilon"),
        delta=exact(delta, "delta"),
        neighbours=one_of(Neighbours, neighbours=neighbours),
    )
    opened = Ledger.open(place).open_budget(
        asked.name, epsilon=asked.epsilon, delta=asked.delta, neighbours=asked.neighbours
    )
    if as_json:
        print_json(
            {
                "budget": opened.name,
                "epsilon": float(opened.epsilon),
                "delta": float(opened.delta),
                "neighbours": str(opened.neighbours),
            }
        )
        return
    typer.echo(
        f"budget {opened.name!r}: epsilon {float(opened.epsilon):g}, delta {float(opened.delta):g}, {opened.neighbours}"
    )


@ledger_app.command("show")
def ledger_show(
    place: Place,
    budget: Annotated[str | None, typer.Option(help="One budget only.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show budgets and their history. Reading changes nothing."""
    from recordwise.privacy.ledger import Ledger
    from recordwise.privacy.ledger.statement import ledger_as_dict, ledger_as_text

    ledger = Ledger.open(place, read_only=True)
    if as_json:
        print_json(ledger_as_dict(ledger, budget))
        return
    typer.echo(ledger_as_text(ledger, budget))


@ledger_app.command("verify")
def ledger_verify(
    place: Place,
    head: Annotated[
        list[str] | None, typer.Option(help="A head that was noted elsewhere, from a report or a printed page.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check that no entry was changed, taken out, put in or moved. Reading changes nothing."""
    from recordwise.privacy.ledger import Ledger
    from recordwise.privacy.ledger.statement import head_as_dict

    found = Ledger.open(place, read_only=True).verify(*(head or ()))
    if as_json:
        checked = {"head": head_as_dict(found.head), "key": found.key, "signed": bool(found.signed)}
        print_json({**checked, "notes": list(found.notes)})
        return
    typer.echo(f"every entry is as it was written; head: {found.head}")
    if found.signed:
        typer.echo(f"signed with key {found.key}, which is here")
    else:
        typer.echo(
            f"signed with key {found.key}, which is not here: who may write to the ledger could have written it anew"
        )
    for note in found.notes:
        typer.echo(note)


@ledger_app.command("sign")
def ledger_sign(
    place: Place,
    head: Annotated[str, typer.Option(help="Where the ledger ends, in full, as `verify` prints it.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Take responsibility for a ledger whose key is lost, or for an older copy if that is all there is."""
    from recordwise.privacy.ledger import Ledger

    signed = str(Ledger.open(place, read_only=True).sign(head))
    tell({"signed": signed}, [f"signed; head: {signed}"], as_json)


@ledger_app.command("forget")
def ledger_forget(place: Place, quiet: Quiet = False, as_json: Json = False) -> None:
    """Forget the ledger that lay here, so that another may take its place. What it paid for stays spent."""
    from recordwise.privacy.ledger import forget

    forgotten = forget(place)
    tell({"forgotten": forgotten}, ["forgotten" if forgotten else "no charged ledger is remembered here"], as_json)
