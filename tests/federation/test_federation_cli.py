"""The commands of coordinator, silo and shuffler: folders, keys, offers, refusals, and what they start."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer
from cryptography import x509
from typer.testing import CliRunner

from federation.world import CLASSES, blobs
from recordwise.errors import InvalidInput
from recordwise.federation import cli, launch
from recordwise.federation.certificates import make_certificates
from recordwise.federation.exchange import InProcess
from recordwise.federation.nodes import node_in, run_coordinator
from recordwise.federation.settings import public_key, read_coordinator, read_silo

NAMES = ("north", "south", "west")


def recordwise(*arguments: object) -> str:
    app = typer.Typer()
    cli.install(app)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been started."""
    commands: list[list[str]] = []
    monkeypatch.setattr(cli, "_stay", lambda command, env: commands.append(command))
    return commands


def party(folder: Path, kind: str, name: str) -> str:
    """A new party's folder; gives its identity."""
    said = recordwise(kind, "init", folder, "--name", name)
    return said.split("identity")[1].split("'" if kind == "silo" else '"')[1]


def federation(root: Path, *, always: bool) -> Path:
    """Three silos and a coordinator, set up by the commands alone."""
    hub = root / "hub"
    recordwise("coordinator", "init", hub, "--host", "127.0.0.1")
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
    summary = run_coordinator(hub, InProcess({i: node_in(tmp_path / name) for i, name in enumerate(NAMES)}))
    assert "distributed trust" in summary.statement
    assert summary.private
    for name in ("student.joblib", "labels.csv", "summary.json", "report.html"):
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
    nodes = InProcess({i: node_in(tmp_path / name) for i, name in enumerate(NAMES)})
    with pytest.raises(Exception, match="waits for a person"):
        run_coordinator(hub, nodes)
    for name in NAMES:
        shown = recordwise("silo", "offers", tmp_path / name)
        assert "[waiting] plan" in shown
        assert "cost of the whole run: epsilon 8" in shown
        recordwise("silo", "approve", tmp_path / name, shown.split("plan ")[1][:16])
        assert "[approved] plan" in recordwise("silo", "offers", tmp_path / name)
    assert run_coordinator(hub, nodes).private


def test_private_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    recordwise("coordinator", "init", tmp_path / "hub")
    party(tmp_path / "north", "silo", "north")
    party(tmp_path / "mixer", "shuffler", "mixer")
    secret = ["hub/server.key", "north/identity.key", "north/node.key", "mixer/identity.key", "mixer/sealing.key"]
    for name in secret:
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert not (tmp_path / "hub" / "ca.key").exists()


def test_init_twice_keeps_the_identity_and_the_settings(tmp_path: Path) -> None:
    first = party(tmp_path / "north", "silo", "north")
    with (tmp_path / "north" / "silo.toml").open("a") as file:
        file.write("# mine\n")
    assert party(tmp_path / "north", "silo", "north") == first
    assert "# mine" in (tmp_path / "north" / "silo.toml").read_text()


def test_certificates_name_their_hosts_and_are_not_overwritten(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["hub.example", "10.0.0.7"])
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))
    with pytest.raises(InvalidInput, match="no certificates yet"):
        make_certificates(tmp_path, ["hub.example"])


def test_tls_and_authentication_are_the_default(tmp_path: Path, started: list[list[str]]) -> None:
    hub = federation(tmp_path, always=True)
    recordwise("coordinator", "start", hub, "--port", "9601")
    recordwise("silo", "start", tmp_path / "north", "--address", "127.0.0.1:9601", "--certificate", hub / "ca.crt")
    link, node = started
    assert "--enable-supernode-auth" in link
    assert "--ssl-certfile" in link
    assert "--root-certificates" in node
    assert "--auth-supernode-private-key" in node
    assert "--insecure" not in (*link, *node)
    told = tomllib.loads((hub / "flwr" / "config.toml").read_text())["superlink"]["federation"]
    assert told["address"] == "127.0.0.1:9601"
    assert Path(told["root-certificates"]).exists()


def test_the_opt_out_is_explicit_and_loud(tmp_path: Path, started: list[list[str]]) -> None:
    hub = federation(tmp_path, always=True)
    said = recordwise("coordinator", "start", hub, "--insecure-trial")
    said += recordwise("silo", "start", tmp_path / "north", "--address", "127.0.0.1:9600", "--insecure-trial")
    assert said.count("INSECURE TRIAL") == 2
    assert all(command[-1] == "--insecure" for command in started)


def test_nothing_starts_without_certificates_or_keys(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"must hold ca\.crt"):
        launch.superlink(tmp_path, host="127.0.0.1", port=1, insecure=False)
    with pytest.raises(InvalidInput, match="--certificate"):
        launch.supernode(tmp_path, address="127.0.0.1:1", certificate=None, port=1, insecure=False)
    with pytest.raises(InvalidInput, match=r"node\.key"):
        launch.supernode(tmp_path, address="127.0.0.1:1", certificate=tmp_path, port=1, insecure=False)
    with pytest.raises(InvalidInput, match=r"silo\.toml or shuffler\.toml"):
        node_in(tmp_path)


def test_flower_neither_reports_nor_installs_anything(tmp_path: Path) -> None:
    told = launch.environment(tmp_path)
    assert told["FLWR_TELEMETRY_ENABLED"] == "0"
    assert told["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert told["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert told["FLWR_HOME"] == str(tmp_path / "flwr")
    app = tomllib.loads(launch.APP)
    assert app["project"]["dependencies"] == []
    assert all(part.startswith("recordwise.federation.") for part in app["tool"]["flwr"]["app"]["components"].values())


def test_a_node_that_is_turned_away_is_started_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As after kill -9, while the SuperLink still takes its predecessor for online."""
    script = (
        f"import pathlib, sys; place = pathlib.Path({str(tmp_path / 'times')!r}); "
        "times = place.read_text() if place.exists() else ''; place.write_text(times + 'x'); sys.exit(len(times) < 2)"
    )
    command = [sys.executable, "-c", script]
    assert launch.keep_running(command, os.environ, pause=0, tries=5) == 0
    assert (tmp_path / "times").read_text() == "xxx"
    assert capfd.readouterr().err.count("started again") == 2
    (tmp_path / "times").unlink()
    assert launch.keep_running(command, os.environ, pause=0, tries=2) == 1


def test_stopping_the_wrapper_stops_what_it_started(tmp_path: Path) -> None:
    """As a service manager does, which knows the wrapper's id only."""
    place = tmp_path / "pid"
    inner = f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    outer = (
        "import os, sys; from recordwise.federation.launch import keep_running; "
        f"sys.exit(keep_running([sys.executable, '-c', {inner!r}], os.environ) < 0)"
    )
    wrapper = subprocess.Popen([sys.executable, "-c", outer])
    end = time.monotonic() + 30
    while not (place.exists() and place.read_text()):
        assert time.monotonic() < end
        time.sleep(0.05)
    wrapper.terminate()
    assert wrapper.wait(20) == 1  # the child was ended by a signal
    with pytest.raises(ProcessLookupError):
        os.kill(int(place.read_text()), 0)


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
