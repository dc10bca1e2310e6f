"""`recordwise coordinator`, `recordwise silo` and `recordwise shuffler`: thin wrappers around Flower's own commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recordwise.errors import InvalidInput

coordinator_app = typer.Typer(
    no_args_is_help=True,
    help="""Label a pool with records that stay at silos: the coordinator's side.

    [bold]init[/bold] a folder, write coordinator.toml (see the one it makes), [bold]start[/bold] the SuperLink,
    [bold]register[/bold] each silo's node.pub, then [bold]run[/bold].""",
)
silo_app = typer.Typer(
    no_args_is_help=True,
    help="""Answer a coordinator for records that stay here: a silo's side.

    [bold]init[/bold] a folder, write silo.toml (see the one it makes), exchange identities with the other silos,
    [bold]start[/bold]; then look at [bold]offers[/bold] and [bold]approve[/bold] those you agree to.""",
)
shuffler_app = typer.Typer(no_args_is_help=True, help="Shuffle silos' sealed messages, for runs under shuffle trust.")

Folder = Annotated[Path, typer.Argument(help="The folder of this party: settings, keys, ledger, state.")]
Insecure = Annotated[
    bool, typer.Option("--insecure-trial", help="No TLS and no authentication. For a trial on one machine only.")
]
Address = Annotated[str, typer.Option(help="host:port of the coordinator's SuperLink.")]
Certificate = Annotated[Path | None, typer.Option(help="The coordinator's ca.crt, got from the coordinator itself.")]
Trusted = Annotated[
    Path | None, typer.Option(help="Flower's YAML list of keys whose signed apps this node runs; no others then.")
]
Port = Annotated[int, typer.Option(help="Local port of the node's own interface; 0 picks a free one.")]


def install(app: typer.Typer) -> None:
    """Add the three groups of commands."""
    app.add_typer(coordinator_app, name="coordinator")
    app.add_typer(silo_app, name="silo")
    app.add_typer(shuffler_app, name="shuffler")


@coordinator_app.command("init")
def coordinator_init(
    folder: Folder,
    host: Annotated[list[str] | None, typer.Option(help="Names or addresses silos will use; repeat it.")] = None,
) -> None:
    """Make a folder with certificates and a coordinator.toml to fill in."""
    from recordwise.federation.certificates import make_certificates

    make_certificates(folder, host or ["127.0.0.1", "localhost"])
    _template(folder / "coordinator.toml", COORDINATOR)
    typer.echo(f"hand to every silo, by a way you trust: {folder / 'ca.crt'}")


@coordinator_app.command("start")
def coordinator_start(
    folder: Folder,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 9600,
    insecure: Insecure = False,
) -> None:
    """Start the SuperLink that silos connect to; it runs until it is stopped."""
    from recordwise.federation import launch

    _warn(insecure)
    launch.connect(folder, address=f"{host}:{port}", insecure=insecure)
    _stay(launch.superlink(folder, host=host, port=port, insecure=insecure), launch.environment(folder))


@coordinator_app.command("register")
def coordinator_register(
    folder: Folder, node: Annotated[list[Path], typer.Argument(help="node.pub of each silo to let in.")]
) -> None:
    """Let nodes in; those that are not registered are refused."""
    from recordwise.federation import launch

    for public in node:
        launch.checked(launch.register(folder, public), launch.environment(folder))


@coordinator_app.command("run")
def coordinator_run(folder: Folder) -> None:
    """Carry coordinator.toml out. Killed at any point, run it again: it goes on, and nothing is paid for twice."""
    from recordwise.federation import launch
    from recordwise.federation.settings import read_coordinator

    told = read_coordinator(folder / "coordinator.toml")
    launch.checked(launch.run(folder), launch.environment(folder))
    if not (told.out / "summary.json").exists():
        raise InvalidInput(f"the run did not finish: see the log above; {told.out} has no summary")
    typer.echo(f"report: {told.out / 'report.html'}")


@silo_app.command("init")
def silo_init(folder: Folder, name: Annotated[str, typer.Option(help="How the others call this silo.")]) -> None:
    """Make a folder with keys and a silo.toml to fill in."""
    from recordwise.federation.certificates import make_node_key
    from recordwise.federation.identity import identity_key, kept_key, public_identity

    folder.mkdir(parents=True, exist_ok=True)
    identity = public_identity(kept_key(folder / "identity.key", identity_key()))
    public = make_node_key(folder)
    _template(folder / "silo.toml", SILO.format(name=name))
    typer.echo(f"identity, for the coordinator and the other silos: {name} = {identity.hex()!r}")
    typer.echo(f"for the coordinator to register: {public}")


@silo_app.command("start")
def silo_start(
    folder: Folder,
    address: Address,
    certificate: Certificate = None,
    port: Port = 0,
    trusted_entities: Trusted = None,
    insecure: Insecure = False,
) -> None:
    """Connect to the coordinator and answer what silo.toml allows, until stopped."""
    from recordwise.federation import launch
    from recordwise.federation.nodes import node_in

    _warn(insecure)
    node_in(folder)  # a mistake in the settings shows now
    command = launch.supernode(
        folder,
        address=address,
        certificate=certificate,
        port=port,
        insecure=insecure,
        trusted=trusted_entities,
    )
    _stay(command, launch.environment(folder))


@silo_app.command("offers")
def silo_offers(folder: Folder) -> None:
    """Show what coordinators ask for and what it would cost, and what was approved."""
    for offer in sorted((folder / "state" / "offers").glob("*.txt")):
        approved = (folder / "state" / "approved" / offer.stem).exists()
        typer.echo(f"[{'approved' if approved else 'waiting'}] plan {offer.stem}\n{offer.read_text()}")


@silo_app.command("approve")
def silo_approve(
    folder: Folder, plan: Annotated[str, typer.Argument(help="The first digits (8 or more) of an offered plan.")]
) -> None:
    """Agree to one offered plan: this silo will answer it."""
    from recordwise.federation.policy import approve

    typer.echo(f"approved:\n{approve(folder / 'state', plan)}")


@shuffler_app.command("init")
def shuffler_init(folder: Folder, name: Annotated[str, typer.Option(help="How the others call it.")]) -> None:
    """Make a folder with keys and a shuffler.toml to fill in."""
    from recordwise.federation.certificates import make_node_key
    from recordwise.federation.identity import identity_key, kept_key, public_identity
    from recordwise.federation.nodes import shuffler_key
    from recordwise.federation.secure_sum import masks

    folder.mkdir(parents=True, exist_ok=True)
    identity = public_identity(kept_key(folder / "identity.key", identity_key()))
    key = masks.public_key(shuffler_key(folder))
    public = make_node_key(folder)
    _template(folder / "shuffler.toml", SHUFFLER.format(name=name))
    typer.echo(f'[shuffler]\nname = "{name}"\nidentity = "{identity.hex()}"\nkey = "{key.hex()}"')
    typer.echo(f"for the coordinator to register: {public}")


@shuffler_app.command("start")
def shuffler_start(
    folder: Folder,
    address: Address,
    certificate: Certificate = None,
    port: Port = 0,
    trusted_entities: Trusted = None,
    insecure: Insecure = False,
) -> None:
    """Connect to the coordinator and shuffle what silos of shuffler.toml seal to it, until stopped."""
    silo_start(folder, address, certificate, port, trusted_entities, insecure)


def _warn(insecure: bool) -> None:
    from recordwise.federation.launch import WARNING

    if insecure:
        typer.secho(WARNING, fg=typer.colors.RED, bold=True, err=True)


def _stay(command: list[str], env: dict[str, str]) -> None:
    from recordwise.federation.launch import keep_running

    raise typer.Exit(keep_running(command, env))


def _template(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text)
    typer.echo(f"fill in: {path}")


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
threshold = 2                         # with fewer silos nothing is released
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
min_participants = 2
always = false                        # true answers whatever the rules allow, without asking a person

[peers]                               # the other silos' identities, got from them and not from the coordinator
"""

SHUFFLER = """name = "{name}"

[peers]                               # identities of the silos it shuffles for
"""
