"""`recordwise coordinator`, `recordwise silo` and `recordwise shuffler`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.options import Json, Quiet, flowing, progress_of, show, tell
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput
from recordwise.formats import text_of

coordinator_app = typer.Typer(
    no_args_is_help=True,
    help=flowing("""Label a pool with records that stay at silos: the coordinator's side.

    [bold]init[/bold] a folder, write coordinator.toml (see the one it makes), [bold]register[/bold] each silo's
    node.crt, then [bold]run[/bold]."""),
)
silo_app = typer.Typer(
    no_args_is_help=True,
    help=flowing("""Answer a coordinator for records that stay here: a silo's side.

    [bold]init[/bold] a folder, write silo.toml (see the one it makes), exchange identities with the other silos,
    [bold]run[/bold]; then look at [bold]offers[/bold] and [bold]approve[/bold] those you agree to."""),
)
shuffler_app = typer.Typer(no_args_is_help=True, help="Shuffle silos' sealed messages, for runs under shuffle trust.")

Folder = Annotated[Path, typer.Argument(help="The folder of this party: settings, keys, ledger, state.")]
Name = Annotated[str, typer.Option(help="How the others call it.")]
Address = Annotated[str, typer.Option(help="host:port where the coordinator listens.")]
Certificate = Annotated[Path, typer.Option(help="coordinator.crt, got from the coordinator by a way you trust.")]


def install(app: typer.Typer) -> None:
    """Add the three groups of commands."""
    app.add_typer(coordinator_app, name="coordinator")
    app.add_typer(silo_app, name="silo")
    app.add_typer(shuffler_app, name="shuffler")


@coordinator_app.command("init")
def coordinator_init(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Make a folder with a key, its certificate and a coordinator.toml to fill in."""
    from recordwise.federation.nodes import new_party

    new_party(folder, "coordinator.crt")
    settings, certificate = _template(folder / "coordinator.toml", COORDINATOR), folder / "coordinator.crt"
    lines = (f"fill in: {settings}", f"hand to every silo, by a way you trust: {certificate}")
    tell({"settings": str(settings), "certificate": str(certificate)}, lines, as_json)


@coordinator_app.command("register")
def coordinator_register(
    folder: Folder,
    node: Annotated[list[Path], typer.Argument(help="node.crt of each silo or shuffler to let in.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Let nodes in; those that are not registered do not get through the handshake."""
    from recordwise.federation.registered import register

    registered = [identity.hex() for identity in register(folder, node)]
    tell({"registered": registered}, (f"registered: {identity}" for identity in registered), as_json)


@coordinator_app.command("run")
def coordinator_run(
    folder: Folder,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 9600,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Run it even where the budget is expected to go on noise.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Carry coordinator.toml out; it stops before silos are asked where its budget would go on noise.

    Killed at any point, run it again: it goes on, and nothing is paid for twice.
    """
    from recordwise.federation.hub import door, run_coordinator

    _log(quiet)
    with door(folder, host=host, port=port) as exchange:
        summary = run_coordinator(folder, exchange, progress_of(quiet), go_on=anyway)
    show(summary, as_json)


@silo_app.command("init")
def silo_init(folder: Folder, name: Name, quiet: Quiet = False, as_json: Json = False) -> None:
    """Make a folder with a key, its certificate and a silo.toml to fill in."""
    identity, certificate = _new_node(folder, name).hex(), folder / "node.crt"
    settings = _template(folder / "silo.toml", SILO.format(name=name))
    lines = (
        f"fill in: {settings}",
        f"identity, for the coordinator and the other silos: {name} = {identity!r}",
        f"for the coordinator to register: {certificate}",
    )
    tell({"settings": str(settings), "identity": identity, "certificate": str(certificate)}, lines, as_json)


@silo_app.command("run")
def silo_run(folder: Folder, address: Address, certificate: Certificate, quiet: Quiet = False) -> None:
    """Connect to the coordinator and answer what silo.toml allows, until stopped."""
    from recordwise.federation.nodes import run_node

    _log(quiet)
    run_node(folder, address, certificate)


@silo_app.command("offers")
def silo_offers(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Show what coordinators ask for and what it would cost, and what was approved."""
    offers = [
        {
            "plan": offer.stem,
            "approved": (folder / "state" / "approved" / offer.stem).exists(),
            "text": text_of(offer),
        }
        for offer in sorted((folder / "state" / "offers").glob("*.txt"))
    ]
    lines = (f"[{'approved' if one['approved'] else 'waiting'}] plan {one['plan']}\n{one['text']}" for one in offers)
    tell({"offers": offers}, lines, as_json)


@silo_app.command("approve")
def silo_approve(
    folder: Folder,
    plan: Annotated[str, typer.Argument(help="The first digits (8 or more) of an offered plan.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Agree to one offered plan: this silo will answer it."""
    from recordwise.federation.policy import approve

    approved = approve(folder / "state", plan)
    tell({"approved": approved}, [f"approved:\n{approved}"], as_json)


@shuffler_app.command("init")
def shuffler_init(folder: Folder, name: Name, quiet: Quiet = False, as_json: Json = False) -> None:
    """Make a folder with keys and a shuffler.toml to fill in."""
    from recordwise.federation.nodes import shuffler_key
    from recordwise.federation.secure_sum import masks

    identity, certificate = _new_node(folder, name).hex(), folder / "node.crt"
    key = masks.public_key(shuffler_key(folder)).hex()
    settings = _template(folder / "shuffler.toml", SHUFFLER.format(name=name))
    lines = (
        f"fill in: {settings}",
        f'[shuffler]\nname = "{name}"\nidentity = "{identity}"\nkey = "{key}"',
        f"for the coordinator to register: {certificate}",
    )
    made = {"settings": str(settings), "identity": identity, "key": key, "certificate": str(certificate)}
    tell(made, lines, as_json)


@shuffler_app.command("run")
def shuffler_run(folder: Folder, address: Address, certificate: Certificate, quiet: Quiet = False) -> None:
    """Connect to the coordinator and shuffle what silos of shuffler.toml seal to it, until stopped."""
    silo_run(folder, address, certificate, quiet)


def _new_node(folder: Path, name: str) -> bytes:
    from recordwise.federation.forms import is_name
    from recordwise.federation.nodes import NODE_CERTIFICATE, new_party

    if not is_name(name) or '"' in name or "\\" in name:
        raise InvalidInput(f"name must be 1 to 64 printable characters without quotes, got {name!r}")
    return new_party(folder, NODE_CERTIFICATE)


def _log(quiet: bool) -> None:
    """What happens, on standard error: for the operator of this machine; only what went wrong where it is quiet."""
    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, format="%(asctime)s %(message)s")


def _template(path: Path, text: str) -> Path:
    """Settings to fill in, where there are none yet."""
    if not path.exists():
        write_whole(path, text.encode())
    return path


COORDINATOR = """name = "federation"

[public]                              # the pool to label
path = "pool.npz"

[privacy]
epsilon = 1.0                         # the whole run, all rounds together
trust = "distributed"                 # central, distributed, local or shuffle

[method]
classes = ["a", "b"]                  # public
rounds = 1

[federation]
threshold = 3                         # with fewer silos nothing is released
colluding = 1                         # so many silos may see the release and know their own noise
attempts = 1                          # secure sums per round, should some fail; silos pay for each
records = [100, 1000]                 # at least and at most so many records at all silos together

[federation.silos]                    # name = identity, as `recordwise silo init` printed it
"""

SILO = """name = "{name}"

[records]                             # private; .npz, .npy, .parquet, .csv, .txt or an image folder
path = "records.npz"
labels = "labels"

[policy]
epsilon = 1.0                         # the cap: what all answers together may cost any one record
trust = "distributed"                 # the most trust this silo grants
min_parties = 2
colluding = 1                         # so many other silos may work against this one
always = false                        # true answers whatever the rules allow, without asking a person

[peers]                               # the other silos' identities, got from them and not from the coordinator
"""

SHUFFLER = """name = "{name}"

[peers]                               # identities of the silos it shuffles for
"""
