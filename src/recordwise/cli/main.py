"""The command `recordwise`: parses, calls one library function, prints."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

from recordwise import __version__
from recordwise.cli.auditing import audit
from recordwise.cli.comparing import compare
from recordwise.cli.exploring import explore
from recordwise.cli.federation import install as install_federation
from recordwise.cli.ledger import ledger_app
from recordwise.cli.options import flowing
from recordwise.cli.planning import amplify, check, plan
from recordwise.cli.running import demo, report, run
from recordwise.cli.starting import init
from recordwise.cli.stopping import ENDINGS, Stopped, stop
from recordwise.cli.using import export, predict
from recordwise.errors import RecordwiseError, one_line

app = typer.Typer(
    name="recordwise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=flowing("""Label public data with private records; protect every single record.

    Each private record votes for the public queries nearest to it; the votes are released under differential privacy;
    a student is trained on the labelled pool and can be published.

    First visit: [bold]recordwise demo[/bold]. Your own data: [bold]recordwise init[/bold] writes a job file, then
    [bold]recordwise check job.toml[/bold], [bold]plan job.toml[/bold] and [bold]run job.toml[/bold]."""),
)
app.add_typer(ledger_app, name="ledger")
for command in (init, run, predict, export, compare, plan, check, explore, amplify, report, demo, audit):
    app.command(help=flowing(command.__doc__))(command)
install_federation(app)

TRACEBACK = "RECORDWISE_TRACEBACK"  # set, it shows where an unexpected fault came from

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
    """Run the command; whatever ends it is told in one line on standard error, with an exit code of its kind."""
    before = {number: signal.signal(number, stop) for number in ENDINGS}
    try:
        code = app(prog_name="recordwise", standalone_mode=False)  # what a command exits with comes back as a value
        if isinstance(code, int) and code:
            sys.exit(code)
    except RecordwiseError as error:
        _end(str(error), error.exit_code)
    except UsageError as error:
        mistake = error.format_message()
        if mistake:  # nothing is said where a bare command has already shown its help
            path = error.ctx.command_path if error.ctx else "recordwise"
            _end(f"{mistake} ({path} --help shows what there is)", error.exit_code)
        sys.exit(error.exit_code)
    except OSError as error:  # a folder that cannot be written, a full disk
        about = f": {error.filename}" if error.filename else ""
        _end(f"{error.strerror or error}{about}", 1)
    except (typer.Abort, EOFError):  # Typer makes the one of the other
        _end("a file, or what was typed in, ended too early", 1)
    except Stopped as stopped:
        number = stopped.args[0]
        _end(f"{ENDINGS[number]}; run the same command again to go on", 128 + number)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        # What it says may quote a record, so only its kind is shown.
        _end(f"unexpected fault ({type(error).__name__}); {TRACEBACK}=1 shows where, and perhaps what it read", 70)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(line: str, code: int) -> NoReturn:
    """Say why, in one line that any terminal can show, and exit."""
    print(f"recordwise: {one_line(line)}", file=sys.stderr)
    sys.exit(code)
