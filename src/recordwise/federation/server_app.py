"""The coordinator as a Flower ServerApp."""

from __future__ import annotations

from pathlib import Path

import recordwise.extras.federation  # noqa: F401

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from recordwise.errors import InvalidInput
from recordwise.federation.exchange import OverGrid
from recordwise.federation.nodes import run_coordinator
from recordwise.progress import Bars

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    folder = context.run_config.get("coordinator")
    if not isinstance(folder, str) or not folder:
        raise InvalidInput(f"run config must name the coordinator's folder, got coordinator = {folder!r}")
    print(run_coordinator(Path(folder), OverGrid(grid), Bars()).as_text())
