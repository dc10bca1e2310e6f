"""Every benchmark, one after the other: `python -m benchmarks`. Leave the machine alone meanwhile."""

from __future__ import annotations

import runpy

for name in ("start", "noise", "votes", "local", "public_side", "student", "memory", "federation"):
    print(f"==> {name}", flush=True)
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
