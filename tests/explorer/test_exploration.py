"""What the page shows is what the planner says, from public data alone."""

from __future__ import annotations

import json
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exploring import HOSTILE, JOB, make_job
from typer.testing import CliRunner

from recordwise.cli import app
from recordwise.cli.stopping import Stopped
from recordwise.errors import InvalidInput
from recordwise.explorer import Exploration, explore, render
from recordwise.explorer.exploration import ledger_shown
from recordwise.explorer.grid import Offer
from recordwise.explorer.map import laid_out
from recordwise.explorer.page import HANDED_ON
from recordwise.explorer.server import PageServer
from recordwise.job import read_job
from recordwise.planner import plan
from recordwise.preflight import outlook_of
from recordwise.privacy.guarantee import Guarantee, Trust, exact
from recordwise.privacy.ledger import Ledger
from recordwise.sections import Source


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    return explore(make_job(tmp_path_factory.mktemp("explore")))


def embedded(page: str) -> Any:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def test_a_cell_is_what_the_plan_says(found: Exploration) -> None:
    cell = found.grid.cell(found.grid.start)
    settings, _, outlook = outlook_of(read_job(found.path))
    made = plan(outlook, settings.terms, num_queries=[6], votes_per_record=[1], compare=False).recommended
    expected = made.student_accuracy
    assert cell["student"] == [expected.mean, expected.low, expected.high]
    assert cell["noise"] == round(made.noise_std, 2) and cell["mechanism"] == made.mechanism == "laplace"
    assert "central trust" in cell["promise"]
    assert "at most 2.719 to 1: 73.2 % sure instead of 50 %" in cell["odds"]  # the report's own sentence


def test_what_epsilon_means_counts_delta(found: Exploration) -> None:
    terms = found.grid.offers[found.grid.start[0]].terms
    assert terms is not None
    loose = replace(terms, delta=exact(0.1), mechanism="gaussian")
    grid = replace(found.grid, offers=(Offer.of(Trust.CENTRAL, loose),), start=(0, 0, 0), cells={})
    cell = grid.cell((0, len(grid.queries) - 1, 0))
    assert grid.epsilons[0] == 0.05
    promise = Guarantee(epsilon=exact(0.05), delta=exact(0.1))
    assert cell["odds"] == promise.as_odds() and "right in at most 56.2 % of all cases" in cell["odds"]


def test_the_job_s_own_settings_are_among_the_stops_and_come_first(found: Exploration) -> None:
    grid = found.grid
    trust, size, epsilon = grid.start
    assert (grid.offers[trust].trust, grid.queries[size], grid.epsilons[epsilon]) == (Trust.CENTRAL, 6, 1.0)
    assert grid.order()[0] == grid.start
    assert [grid.offers[at[0]].trust for at in grid.order()][: len(grid.queries) * len(grid.epsilons)] == [
        Trust.CENTRAL
    ] * (len(grid.queries) * len(grid.epsilons))


def test_a_trust_that_the_terms_do_not_allow_says_why(found: Exploration) -> None:
    shuffle = list(Trust).index(Trust.SHUFFLE)
    assert "delta > 0" in found.grid.offers[shuffle].refused
    assert all(at[0] != shuffle for at in found.grid.order())
    assert "delta > 0" in found.grid.cell((shuffle, 0, 0))["refused"]
    with pytest.raises(InvalidInput, match="delta > 0"):
        found.write((shuffle, 0, 0))


def test_where_noise_covers_the_votes_nothing_is_simulated(found: Exploration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordwise.explorer.grid.predict", lambda *_, **__: pytest.fail("it was"))
    local, many = list(Trust).index(Trust.LOCAL), len(found.grid.queries) - 1
    cell = found.grid.cell((local, many, 0))
    assert cell["refused"] == "noise covers the votes"
    assert cell["votes"] < cell["noise"] / 4 and "local trust" in cell["promise"]
    assert "student" not in cell


def test_what_cannot_be_predicted_is_a_cell_that_says_so(found: Exploration) -> None:
    grid = replace(found.grid, queries=(121,), cells={})
    assert "num_queries must be <= the pool's 120 samples" in grid.cell((0, 0, len(grid.epsilons) - 1))["refused"]


def test_nothing_private_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The private file does not exist, so reading it would fail; and where there is one, not a byte changes."""
    read, asked = Source.read, []
    monkeypatch.setattr(
        Source, "read", lambda self, section, *more: asked.append(section) or read(self, section, *more)
    )
    pages = []
    for private in (None, "first,second,diagnosis\n1,2,flu\n"):
        if private:
            (tmp_path / "nobody-made-this-file.csv").write_text(private)
        one = explore(make_job(tmp_path))
        one.grid.cell((0, 0, 0))
        pages.append(render(one.document(travels=True)))
    assert asked == ["public", "public"]
    assert pages[0] == pages[1]


def test_text_of_the_pool_stays_text(found: Exploration) -> None:
    page = render(found.document(travels=False))
    assert "<img" not in page and "onerror=" in page
    assert page.count("</script>") == 2 and page.count("<script") == 2
    shown = embedded(page)["map"]["samples"]
    assert any([f"note {HOSTILE}", HOSTILE] in row for row in shown)


def test_a_job_s_name_takes_no_part_s_place(found: Exploration) -> None:
    document = found.document(travels=True)
    page = render({**document, "name": "{{data}}{{script}}"})
    assert "<title>{{data}}{{script}} · Recordwise explorer</title>" in page
    assert embedded(page)["pool"] == document["pool"]


def test_the_policy_lets_in_nothing_but_the_page_s_own_script(found: Exploration) -> None:
    page = render(found.document(travels=True))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy and "connect-src" not in policy
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b|outerHTML", page)


def test_a_page_that_travels_stays_small(found: Exploration) -> None:
    document = found.document(travels=True)
    samples = ["x" * 1000] * 800
    page = render({**document, "map": {**document["map"], "kind": "text", "samples": samples}})
    kept = embedded(page)["map"]["samples"]
    assert len(kept) == 800 and kept[0] == samples[0] and kept[-1] is None
    assert len("".join(filter(None, kept))) <= HANDED_ON < 500_000


@pytest.mark.parametrize(
    "vectors", [np.zeros((30, 4)), np.zeros((1, 3)), np.eye(5), np.linspace(0, 1, 40)[:, None]], ids=str
)
def test_every_pool_has_a_map(vectors: Any) -> None:
    points = laid_out(vectors.astype(np.float32), 0)
    assert points.shape == (len(vectors), 2) and np.isfinite(points).all()


def test_every_sample_on_the_map_belongs_to_one_of_the_queries(found: Exploration) -> None:
    drawn = found.map
    assert len(drawn.points) == len(drawn.samples) == 120 and drawn.left_out == 0
    assert drawn.kind == "rows" and drawn.samples[0][0][0] == "first"
    for size in found.grid.queries:
        owners = drawn.owners[str(size)]
        assert len(owners) == 120 and set(owners) <= set(range(size))
    assert all(0 <= number <= 1000 for point in drawn.points for number in point)


@pytest.mark.parametrize(
    ("samples", "method", "kind", "begins"),
    [
        (
            np.arange(40 * 6 * 6, dtype=np.uint8).reshape(40, 6, 6),
            'encoder = "pca"',
            "images",
            "data:image/png;base64,",
        ),
        (
            [f"<i>cat</i> {n} sat" if n % 2 else f"a dog {n} ran" for n in range(40)],
            'encoder = "text"',
            "text",
            "a dog",
        ),
    ],
    ids=["images", "text"],
)
def test_images_and_texts_are_shown_as_such(samples: Any, method: str, kind: str, begins: str, tmp_path: Path) -> None:
    if kind == "text":
        (tmp_path / "pool.txt").write_text("\n".join(samples))
    else:
        np.save(tmp_path / "pool.npy", samples)
    source = "pool.txt" if kind == "text" else "pool.npy"
    job = JOB.replace('"pool.csv"\nlabels = "known"', f'"{source}"').replace('encoder = "table"', method)
    (tmp_path / "job.toml").write_text(job)
    drawn = explore(tmp_path / "job.toml").map
    assert drawn.kind == kind and str(drawn.samples[0]).startswith(begins)


def test_the_ledger_is_shown_and_left_as_it_is(tmp_path: Path) -> None:
    from recordwise import PrivateDistiller

    place = tmp_path / "ledger.sqlite"
    ledger = Ledger.open(place)
    for name in ("wards", "others"):
        ledger.open_budget(name, epsilon=2)
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    account = {"ledger": place, "budget": "wards"}
    PrivateDistiller(0.5, num_queries=4, encoder="scaler", account=account).fit(X, y, X_public=X + 0.01)
    before = place.read_bytes()
    named = JOB + '[account]\nledger = "ledger.sqlite"\nbudget = "wards"\n'
    account = read_job(make_job(tmp_path, named)).account
    shown = ledger_shown(account, travels=False)
    assert shown is not None and [one["name"] for one in shown["budgets"]] == ["others", "wards"]
    wards = shown["budgets"][1]
    assert (wards["spent"], wards["left"], len(wards["releases"])) == ("0.5", "1.5", 1)
    travels = ledger_shown(account, travels=True)
    assert travels is not None and [one["name"] for one in travels["budgets"]] == ["wards"]
    assert place.read_bytes() == before
    place.write_bytes(b"this is no ledger")
    broken = ledger_shown(account, travels=False)
    assert broken is not None and broken["said"] and not broken["budgets"]
    assert str(tmp_path) not in str(ledger_shown(account, travels=True))


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    job = make_job(tmp_path, JOB + '[account]\nledger = "ledger.sqlite"\n')
    shown = ledger_shown(read_job(job).account, travels=False)
    assert shown is not None and "is not there yet" in shown["said"]
    assert not (tmp_path / "ledger.sqlite").exists()
    server = replace(read_job(job).account, ledger="postgresql://me:secret@host/db")
    away = ledger_shown(server, travels=False)
    assert away is not None and "on a server" in away["said"] and "secret" not in str(away)
    assert ledger_shown(replace(server, ledger=None), travels=False) is None


def test_the_command_writes_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordwise.explorer.grid.EPSILONS", (2.0,))
    text = JOB.replace("num_queries = 6", 'num_queries = "auto"').replace(
        "[method]", 'mechanism = "matching"\n[method]'
    )
    job = make_job(tmp_path, text)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["explore", str(job), "--out", str(page)])
    assert done.exit_code == 0 and done.stdout.strip() == str(page)
    told = CliRunner().invoke(app, ["explore", str(job), "--out", str(page), "--quiet", "--json"])
    assert json.loads(told.stdout) == {"page": str(page)} and told.stderr == ""
    document = embedded(page.read_text())
    assert (document["queries"], document["epsilons"], document["total"]) == ([3], [1.0, 2.0], 6)
    assert len(document["cells"]) == 6 and document["travels"]
    assert {path.name for path in tmp_path.iterdir()} == {"job.toml", "pool.csv", "page.html"}


def test_mistakes_are_one_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from recordwise.cli import main

    job = make_job(tmp_path, JOB.replace("[records]\nexpected = 600", ""))
    for arguments, said in [
        (["--no-open"], "a plan needs a public number of records: --num-records, or records.expected"),
        (["--out", str(tmp_path / "nowhere" / "page.html")], "must exist"),
    ]:
        monkeypatch.setattr(sys, "argv", ["recordwise", "explore", str(job), *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("recordwise:")]
        assert said in line


def test_whoever_interrupts_it_ends_it_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: PageServer) -> None:
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr("recordwise.explorer.grid.EPSILONS", (2.0,))
    monkeypatch.setattr(PageServer, "serve_forever", interrupted)
    done = CliRunner().invoke(app, ["explore", str(make_job(tmp_path)), "--no-open", "--quiet", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["url"].startswith("http://127.0.0.1:")
