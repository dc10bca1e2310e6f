"""The page is served to this machine alone, to whoever has its address, and writes nothing but new job files."""

from __future__ import annotations

import http.client
import json
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exploring import JOB, afresh, make_job

from recordwise.explorer import explore
from recordwise.explorer.server import PageServer

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Nothing is computed in the background here: cells are made by the tests."""
    with PageServer(explore(make_job(tmp_path_factory.mktemp("serve")))) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def asked(
    server: PageServer, method: str, path: str, headers: dict[str, str] | None = None, body: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request(method, path, body=body, headers=headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def test_it_listens_on_this_machine_alone_with_an_address_nobody_guesses(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 43 and server.token in server.url
    with PageServer(server.exploration) as other:
        assert other.token != server.token


def test_the_page_comes_with_a_policy_and_leaves_no_copy(server: PageServer) -> None:
    status, headers, page = asked(server, "GET", f"/{server.token}/")
    assert status == 200 and b"Recordwise explorer" in page
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize(
    "path", ["/", "/cells", "/{wrong}/", "/{wrong}/cells", "/{token}/../job.toml", "/{token}/pool.csv"]
)
def test_without_the_token_and_beyond_the_page_there_is_nothing(server: PageServer, path: str) -> None:
    wrong = server.token[:-1] + ("A" if server.token[-1] != "A" else "B")
    status, _, content = asked(server, "GET", path.format(token=server.token, wrong=wrong))
    assert (status, content) == (404, b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "127.0.0.1"},
        {"Host": "attacker.example:{port}"},
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("method", "name"), [("GET", "cells"), ("POST", "job")])
def test_other_hosts_and_other_pages_are_refused(
    server: PageServer, method: str, name: str, headers: dict[str, str]
) -> None:
    named = {key: value.format(port=server.server_address[1]) for key, value in headers.items()}
    status, _, content = asked(server, method, f"/{server.token}/{name}", JSON | named, '{"at": [0, 0, 0]}')
    assert (status, content) == (403, b"")
    assert not list(server.exploration.path.parent.glob("*explored*"))


def test_cells_come_as_they_are_computed(server: PageServer) -> None:
    exploration = server.exploration

    def cells(query: str) -> Any:
        return json.loads(asked(server, "GET", f"/{server.token}/cells?{query}")[2])

    assert cells("have=0&at=0,0,1")["cells"] == []
    assert exploration.wanted[-1] == (0, 0, 1)
    first = exploration.grid.cell((0, 0, 1))
    assert cells("have=0&at=0,0,1")["cells"] == [first] and cells("have=1")["cells"] == []
    for wrong in ("have=x", "have=-1", "at=0,0", "at=9,0,0", "at=0,0,99", "at=0,0,-1"):
        assert "refused" in cells(wrong), wrong


def test_what_the_page_asks_for_is_computed_first(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    exploration, made = afresh(server.exploration), []
    exploration.wanted.append(exploration.grid.order()[-1])

    def cell(self: Any, at: Any) -> None:
        made.append(at)
        exploration.wanted.clear()
        if len(made) == 3:
            raise ZeroDivisionError
        if len(made) == 4:
            exploration.stopped.set()

    monkeypatch.setattr(type(exploration.grid), "cell", cell)
    exploration._fill()
    order = exploration.grid.order()
    assert made == [order[-1], *order[:3]]
    assert exploration.grid.cells[order[1]]["refused"] == "unexpected fault (ZeroDivisionError)"


def test_the_button_writes_a_new_job_file(server: PageServer) -> None:
    folder, path = server.exploration.path.parent, f"/{server.token}/job"
    grid = server.exploration.grid
    local, size, epsilon = 2, 0, grid.epsilons.index(0.5)
    status, _, content = asked(server, "POST", path, JSON, json.dumps({"at": [local, size, epsilon]}))
    told = json.loads(content)
    assert status == 200 and told == {"file": "job-explored.toml", "folder": str(folder)}
    before, after = tomllib.loads(JOB), tomllib.loads((folder / "job-explored.toml").read_text())
    assert after.pop("privacy") == {"epsilon": 0.5, "trust": "local"}
    assert after.pop("method") == before.pop("method") | {"num_queries": grid.queries[0]}
    before.pop("privacy")
    assert after == before and (folder / "job.toml").read_text() == JOB
    assert "# the board said so" in (folder / "job-explored.toml").read_text()
    (folder / "job-explored.toml").unlink()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "text/plain"}, '{"at": [0, 0, 0]}'),
        (JSON, "not json"),
        (JSON, "[]"),
        (JSON, '{"at": "0,0,0"}'),
        (JSON, '{"at": [0, 0]}'),
        (JSON, '{"at": [0, 0, 1.5]}'),
        (JSON, '{"at": [0, 0, "../../x"]}'),
        (JSON, '{"at": [3, 0, 0]}'),  # shuffle trust, which needs a delta
        (JSON, " " * 5000),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_is_no_choice_writes_nothing(server: PageServer, headers: dict[str, str], body: str) -> None:
    status, _, content = asked(server, "POST", f"/{server.token}/job", headers, body)
    assert status == 400 and json.loads(content)["refused"]
    assert not list(server.exploration.path.parent.glob("*explored*"))


def test_a_folder_that_cannot_be_written_is_told(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recordwise.explorer.editing.write_once", full)
    status, _, content = asked(server, "POST", f"/{server.token}/job", JSON, '{"at": [0, 0, 0]}')
    assert status == 500 and json.loads(content)["refused"].endswith("No space left on device")


def test_the_address_is_not_on_the_browser_s_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from urllib.parse import urlsplit

    from recordwise.cli.exploring import _browser

    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address))
    with _browser("http://127.0.0.1:1/secret/"):
        (address,) = opened
        door = Path(urlsplit(address).path)
        assert "secret" not in address and "url=http://127.0.0.1:1/secret/" in door.read_text()
        assert door.stat().st_mode & 0o077 == 0 and door.parent.stat().st_mode & 0o077 == 0
    assert not door.exists()
    with _browser(None):
        assert len(opened) == 1
