"""The commands of coordinator, silo and shuffler: folders, keys, offers, refusals, and what they start."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from federation.world import CLASSES, blobs
from recordwise.cli import federation as cli
from recordwise.errors import InvalidInput
from recordwise.federation.coordinator_file import read_coordinator
from recordwise.federation.exchange import InProcess
from recordwise.federation.hub import run_coordinator
from recordwise.federation.nodes import node_in, run_node
from recordwise.federation.registered import register
from recordwise.federation.settings import ShufflerFile, public_key, read_silo

NAMES = ("north", "south", "west")


def recordwise(*arguments: object) -> str:
    app = typer.Typer()
    cli.install(app)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def party(folder: Path, kind: str, name: str) -> str:
    """A new party's folder; gives its identity."""
    said = recordwise(kind, "init", folder, "--name", name)
    return said.split("identity")[1].split("'" if kind == "silo" else '"')[1]


def federation(root: Path, *, always: bool) -> Path:
    """Three silos and a coordinator, set up by the commands alone."""
    hub = root / "hub"
    recordwise("coordinator", "init", hub)
    samples, labels = blobs(120, "records")
    silos = ""
    for number, name in enumerate(NAMES):
        folder = root / name
        silos += f'{name} = "{party(folder, "silo", name)}"\n'
        np.savez(folder / "records.npz", samples=samples[number::3], labels=labels[number::3])
        told = (folder / "silo.toml").read_text().replace("epsilon = 1.0", "epsilon = 10.0")
        told = told.replace('labels = "labels"', 'samples = "samples"\nlabels = "labels"')
        (folder / "silo.toml").write_text(told.replace("always = false", f"always = {str(always).lower()}"))
    for name in NAMES:
        with (root / name / "silo.toml").open("a") as file:
            file.write(silos)
    np.savez(hub / "pool.npz", samples=blobs(90, "pool")[0])
    told = (hub / "coordinator.toml").read_text().replace('["a", "b"]', str(list(CLASSES)))
    told = told.replace("rounds = 1", 'rounds = 1\nnum_queries = 6\nencoder = "scaler"')
    told = told.replace("records = [100, 1000]", "records = [80, 120]\npatience = 0").replace(
        "epsilon = 1.0", "epsilon = 8.0"
    )
    (hub / "coordinator.toml").write_text(told + silos)
    return hub


def test_a_federation_set_up_by_the_commands_alone_runs(tmp_path: Path) -> None:
    hub = federation(tmp_path, always=True)
    summary = run_coordinator(hub, InProcess({name: node_in(tmp_path / name) for name in NAMES}))
    assert "distributed trust" in summary.statement
    assert summary.private
    for name in ("student.npz", "labels.csv", "summary.json", "report.html"):
        assert (hub / "run" / name).exists()


def test_a_test_set_that_cannot_be_scored_is_refused_before_a_silo_is_asked(tmp_path: Path) -> None:
    hub = federation(tmp_path, always=True)
    np.savez(hub / "test.npz", samples=blobs(5, "test")[0], labels=np.array(["nobody's"] * 5))
    with (hub / "coordinator.toml").open("a") as file:
        file.write('[test]\npath = "test.npz"\nsamples = "samples"\nlabels = "labels"\n')
    with pytest.raises(InvalidInput, match="labels must be declared classes"):
        run_coordinator(hub, InProcess({}))
    assert not (hub / "run").exists()


def test_offers_are_shown_and_approved_before_anything_is_answered(tmp_path: Path) -> None:
    hub = federation(tmp_path, always=False)
    nodes = InProcess({name: node_in(tmp_path / name) for name in NAMES})
    with pytest.raises(Exception, match="waits for a person"):
        run_coordinator(hub, nodes)
    for name in NAMES:
        shown = recordwise("silo", "offers", tmp_path / name)
        assert "[waiting] plan" in shown
        assert "cost of the whole run, at most: epsilon 8" in shown
        recordwise("silo", "approve", tmp_path / name, shown.split("plan ")[1][:16])
        assert "[approved] plan" in recordwise("silo", "offers", tmp_path / name)
    assert run_coordinator(hub, nodes).private


def test_private_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    recordwise("coordinator", "init", tmp_path / "hub")
    party(tmp_path / "north", "silo", "north")
    party(tmp_path / "mixer", "shuffler", "mixer")
    secret = ["hub/identity.key", "north/identity.key", "mixer/identity.key", "mixer/sealing.key"]
    for name in secret:
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_init_twice_keeps_the_identity_and_the_settings(tmp_path: Path) -> None:
    first = party(tmp_path / "north", "silo", "north")
    with (tmp_path / "north" / "silo.toml").open("a") as file:
        file.write("# mine\n")
    assert party(tmp_path / "north", "silo", "north") == first
    assert "# mine" in (tmp_path / "north" / "silo.toml").read_text()


def test_nodes_are_registered_by_their_certificates(tmp_path: Path) -> None:
    recordwise("coordinator", "init", tmp_path / "hub")
    identity = party(tmp_path / "north", "silo", "north")
    said = recordwise("coordinator", "register", tmp_path / "hub", tmp_path / "north" / "node.crt")
    assert said == f"registered: {identity}\n"
    kept = tmp_path / "hub" / "nodes" / f"{identity}.crt"
    assert kept.read_bytes() == (tmp_path / "north" / "node.crt").read_bytes()
    with pytest.raises(InvalidInput, match="must be a certificate"):
        register(tmp_path / "hub", [tmp_path / "north" / "identity.key"])


def test_there_is_no_way_to_run_without_tls_and_no_control_over_the_network() -> None:
    shown = {group: recordwise(group, "--help") for group in ("coordinator", "silo", "shuffler")}
    assert all(f" {name} " in shown["coordinator"] for name in ("init", "register", "run"))
    for group in shown:
        assert "insecure" not in recordwise(group, "run", "--help")
        assert " start " not in shown[group]


def test_nothing_starts_without_settings_or_the_coordinators_certificate(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"silo\.toml or shuffler\.toml"):
        node_in(tmp_path)
    federation(tmp_path, always=True)
    with pytest.raises(InvalidInput, match="could not be read"):
        run_node(tmp_path / "north", "127.0.0.1:1", tmp_path / "nothing.crt")
    with pytest.raises(InvalidInput, match="must be a certificate"):
        run_node(tmp_path / "north", "127.0.0.1:1", tmp_path / "north" / "silo.toml")
    with pytest.raises(InvalidInput, match="host:port"):
        run_node(tmp_path / "north", "here", tmp_path / "hub" / "coordinator.crt")
    (tmp_path / "north" / "records.npz").unlink()
    with pytest.raises(InvalidInput, match=r"records\.npz"):  # here, and not when the coordinator asks
        run_node(tmp_path / "north", "127.0.0.1:1", tmp_path / "hub" / "coordinator.crt")


def test_gaps_in_a_silos_file_make_records_abstain_and_nothing_fails(tmp_path: Path) -> None:
    hub = federation(tmp_path, always=True)
    with np.load(tmp_path / "north" / "records.npz") as file:
        samples, labels = file["samples"], file["labels"]
    samples[3], labels[5] = np.nan, "yew"
    np.savez(tmp_path / "north" / "records.npz", samples=samples, labels=labels)
    assert run_coordinator(hub, InProcess({name: node_in(tmp_path / name) for name in NAMES})).private


@pytest.mark.parametrize("name", ["", "\x1b[2J", "a" * 65, " north", 'no"rth', "north\u202e"])
def test_a_name_that_cannot_be_printed_is_refused(tmp_path: Path, name: str) -> None:
    for kind in ("silo", "shuffler"):
        with pytest.raises(InvalidInput, match="printable"):
            recordwise(kind, "init", tmp_path / "folder", "--name", name)
    with pytest.raises(ValidationError, match="printable"):
        ShufflerFile(name="mixer", peers={name.replace('"', "\n"): "00"})


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("epsilon = 10.0", "epsilon = nan", "finite number, got nan"),
        ("epsilon = 10.0", "epsylon = 1", "policy"),
        ('trust = "distributed"', 'trust = "all"', "trust"),
        ('south = "', 'south = "zz', "peers.south must be 64 hexadecimal digits"),
    ],
)
def test_a_mistake_in_a_silos_settings_is_one_line(tmp_path: Path, before: str, after: str, rule: str) -> None:
    federation(tmp_path, always=True)
    place = tmp_path / "north" / "silo.toml"
    place.write_text(place.read_text().replace(before, after))
    with pytest.raises(InvalidInput, match=rule) as caught:
        node_in(tmp_path / "north")
    assert "\n" not in str(caught.value)


def test_paths_in_settings_are_relative_to_their_file(tmp_path: Path) -> None:
    hub = federation(tmp_path, always=True)
    assert read_coordinator(hub / "coordinator.toml").public.path == hub / "pool.npz"
    assert read_silo(tmp_path / "north" / "silo.toml").records.path == tmp_path / "north" / "records.npz"
    with pytest.raises(InvalidInput, match="64 hexadecimal digits, got 4"):
        public_key("key", "abcd")


@pytest.mark.parametrize(
    ("section", "line", "name"),
    [
        ("[privacy]", "trust = {name = 'distributed', parties = 3}", "trust.parties"),
        ("[privacy]", "trust = {name = 'distributed', colluding = 2}", "trust.colluding"),
        ("[method]", "[records]\noverlap = 'abstain'\n[method]", "records.overlap"),
        ("[method]", "[records]\nexpected = 9\n[method]", "records.expected"),
        ("[method]", "[account]\nround_epsilon = 1.0\n[method]", "account.round_epsilon"),
    ],
)
def test_a_coordinator_refuses_what_is_for_records_in_one_place(
    tmp_path: Path, section: str, line: str, name: str
) -> None:
    """What was accepted and ignored would be believed."""
    recordwise("coordinator", "init", tmp_path / "hub")
    place = tmp_path / "hub" / "coordinator.toml"
    told = place.read_text()
    told = told.replace(section, line) if section in line else told.replace('trust = "distributed"', line)
    place.write_text(told + f'north = "{"0" * 64}"\n')
    with pytest.raises(InvalidInput, match=f"{name} is for records in one place: a coordinator has none$"):
        read_coordinator(place)
