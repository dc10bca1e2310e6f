"""What a test tells of how much it tried (fixture `counted`, option --counts), as docs/concepts/threats.md shows it."""

from __future__ import annotations

from collections.abc import Callable

Counted = Callable[[str, int, int], None]
Share = Callable[[int], int]

KILLS, DISKS, POWER = "processes killed", "changes of a disk that fail", "power cuts"
RACES, CHARGES = "runs begun in one folder at once", "charges that race for a budget"
SERVERS, BYTES = "database servers killed", "messages and files nearly right"
