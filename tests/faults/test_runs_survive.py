"""Kills, failing disks, power cuts and races: started once more, a run goes on, and nothing is lost or paid twice.

A sample is tried by `make test`; `make test-all` tries many more and prints the counts, each of which must be zero.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from broken_twins import TWINS
from victims import KILL, KILL_HALFWAY, Count, Victims, injuries, power_cuts, races

from counts import Counted, Share

pytestmark = pytest.mark.timeout(900)

FULL_DISK, BROKEN_DISK = -errno.ENOSPC, errno.EIO
Try = Callable[[Victims], Count]
WHOLE = 1000  # of which --share leaves a part

SAMPLE: dict[str, Try] = {
    "power cuts after commits": partial(power_cuts, scenario="job", commits=True, every=12),
    "power cuts of a silo": partial(power_cuts, scenario="federation", party="world/north", commits=True, every=25),
    "kills": partial(injuries, scenario="job", fault=KILL, every=29),
    "kills before the first release": partial(injuries, scenario="device", fault=KILL_HALFWAY, every=4),
    "a full disk": partial(injuries, scenario="job", fault=FULL_DISK, every=47),
    "a broken disk": partial(injuries, scenario="restarted", fault=BROKEN_DISK, every=61),
    "races that meet": partial(races, scenario="job", tries=1, processes=2, twin="meet"),
}
MANY: dict[str, partial[Count]] = {
    **{f"power cuts of {one}": partial(power_cuts, scenario=one) for one in ("job", "unledgered", "device")},
    **{f"power cuts of {one}": partial(power_cuts, scenario=one, every=2) for one in ("individual", "restarted")},
    **{f"power cuts of {one}": partial(power_cuts, scenario=one, every=6) for one in ("federation", "central")},
    "power cuts of shuffled": partial(power_cuts, scenario="shuffled", every=9),
    **{
        f"power cuts of {party}": partial(power_cuts, scenario="federation", party=party, every=6)
        for party in ("world/north", "world/run")
    },
    "kills of job": partial(injuries, scenario="job", fault=KILL),
    **{
        f"kills of {one}": partial(injuries, scenario=one, fault=KILL, every=4)
        for one in ("individual", "unledgered", "restarted", "device")
    },
    **{f"kills of {one}": partial(injuries, scenario=one, fault=KILL, every=15) for one in ("federation", "central")},
    "kills of shuffled": partial(injuries, scenario="shuffled", fault=KILL, every=23),
    **{
        f"fault {fault} of {one}": partial(injuries, scenario=one, fault=fault, every=every)
        for fault in (KILL_HALFWAY, FULL_DISK, BROKEN_DISK)
        for one, every in {"job": 7, "individual": 13, "restarted": 13, "device": 2, "federation": 41}.items()
    },
    "races of two": partial(races, scenario="job", tries=50, processes=2),
    "races of four": partial(races, scenario="individual", tries=15, processes=4),
    "races that meet": partial(races, scenario="job", tries=5, processes=2, twin="meet"),
}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_faults_leaves_no_trace(victims: Victims, name: str) -> None:
    count = SAMPLE[name](victims)
    assert count.tried and not count.faults, f"{count}\n" + "\n".join(count.shown)


def fewer(settings: dict[str, Any], share: Share) -> dict[str, int]:
    """The settings that leave a share of what is tried."""
    if "tries" in settings:
        return {"tries": share(settings["tries"])}
    return {"every": max(1, WHOLE * settings.get("every", 1) // share(WHOLE))}


@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
def test_many_faults_leave_no_trace(
    victims: Victims, name: str, capsys: pytest.CaptureFixture[str], counted: Counted, share: Share
) -> None:
    count = MANY[name](victims, **fewer(MANY[name].keywords, share))
    with capsys.disabled():
        print(f"\n{count}", flush=True)
    counted(count.kind, count.tried, count.faults.total())
    assert count.tried and not count.faults, f"{count}\n" + "\n".join(count.shown)


CAUGHT: dict[str, partial[Count]] = {
    "commits first": partial(power_cuts, scenario="job", twin="commits_first", commits=True),
    "unsynced files": partial(power_cuts, scenario="device", twin="unsynced_files"),
    "manifest last": partial(power_cuts, scenario="job", twin="manifest_last", commits=True, every=5),
    "no lock": partial(races, scenario="job", tries=1, twin="take_no_lock"),
}
CAUGHT_SLOWLY: dict[str, partial[Count]] = {
    "unsynced files": partial(power_cuts, scenario="job", twin="unsynced_files"),
    "unsynced names": partial(power_cuts, scenario="job", twin="unsynced_names"),
    "unsynced folders": partial(power_cuts, scenario="job", twin="unsynced_folders", commits=True),
    "answers first": partial(power_cuts, scenario="federation", twin="answers_first", party="world/north", every=6),
    "writes in place": partial(injuries, scenario="job", fault=KILL_HALFWAY, twin="writes_in_place"),
    "sweeps nothing": partial(injuries, scenario="job", fault=KILL, twin="sweeps_nothing"),
}


def test_every_broken_twin_is_tried_and_told_of() -> None:
    broken = set(TWINS) - {"meet"}
    assert {one.keywords["twin"] for one in (*CAUGHT.values(), *CAUGHT_SLOWLY.values())} == broken
    number = {8: "Eight", 9: "Nine", 10: "Ten"}[len(broken)]
    assert f"{number} broken twins" in (Path(__file__).parents[2] / "docs/concepts/ledger.md").read_text()


@pytest.mark.parametrize("name", CAUGHT)
def test_a_broken_twin_is_caught(victims: Victims, name: str) -> None:
    assert CAUGHT[name](victims).faults


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUGHT_SLOWLY)
def test_every_broken_twin_is_caught(victims: Victims, name: str) -> None:
    assert CAUGHT_SLOWLY[name](victims).faults
