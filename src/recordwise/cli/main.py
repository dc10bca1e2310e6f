"""The command `recordwise`: parses, calls one library function, prints."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from recordwise import __version__
from recordwise.cli.auditing import audit
from recordwise.cli.federation import install as install_federation
from recordwise.cli.ledger import ledger_app
from recordwise.cli.planning import amplify, plan
from recordwise.cli.running import demo, report, run
from recordwise.cli.starting import init
from recordwise.cli.using import export, predict
from recordwise.errors import RecordwiseError

app = typer.Typer(
    name="recordwise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="""Label public data with private records; protect every single record.

    Each private record votes for the public queries nearest to it; the votes are released under differential privacy;
    a student is trained on the labelled pool and can be published.

    First visit: [bold]recordwise demo[/bold]. Your own data: [bold]recordwise init[/bold] writes a job file, then
    [bold]recordwise check job.toml[/bold], [bold]plan job.toml[/bold] and [bold]run job.toml[/bold].""",
)
app.add_typer(ledger_app, name="ledger")
for command in (init, run, predict, export, plan, amplify, report, demo, audit):
    app.command()(command)
install_federation(app)

# The parent of every error about options and arguments. Typer offers no name for it, and it lies in click or, from
# Typer 0.26 on, in Typer itself.
UsageError: Any = typer.BadParameter.__mro__[1]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"recordwise {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What can be said before any command."""


def main() -> None:
    """Run the command; a mistake ends in one line on standard error and an exit code of its kind."""
    try:
        code = app(prog_name="recordwise", standalone_mode=False)  # what a command exits with comes back as a value
        if isinstance(code, int) and code:
            sys.exit(code)
    except RecordwiseError as error:
        print(f"recordwise: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except UsageError as error:
        mistake = " ".join(error.format_message().split())
        if mistake:  # nothing is said where a bare command has already shown its help
            path = error.ctx.command_path if error.ctx else "recordwise"
            print(f"recordwise: {mistake} ({path} --help shows what there is)", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # a folder that cannot be written, a full disk
        about = f": {error.filename}" if error.filename else ""
        print(f"recordwise: {error.strerror or error}{about}", file=sys.stderr)
        sys.exit(1)
    except typer.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        print("recordwise: interrupted; run the same command again to go on", file=sys.stderr)
        sys.exit(130)
