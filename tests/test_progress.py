"""Progress: whoever works says how far it is, and where nobody sees a bar move, lines say how long the rest takes."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from recordwise import PrivateDistiller
from recordwise.data import read
from recordwise.explorer.exploration import Exploration
from recordwise.fits import uncounted
from recordwise.progress import WATCHER, Bars, Lines, Silent, Tell, counted, done, every_second, part, step
from recordwise.students.per_class import PerClass
from recordwise.students.shallow import Linear, Mlp


class Seen:
    """Keeps what a person would see."""

    def __init__(self) -> None:
        self.steps: dict[str, list[float]] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Tell]:
        self.steps[name] = []
        yield self.steps[name].append


def test_work_deep_inside_a_step_moves_it_and_it_never_goes_back() -> None:
    seen = Seen()
    done(1, 2)  # outside a step nothing is shown
    with part(0, 1):
        done(1, 2)
    with step(seen, "one"):
        done(1, 4)
        with part(1, 2, 4):
            done(0)
            done(1, 2)
            with part(0.5, 1.0):
                done(1, 2)
        done(1, 10)
        done(5, 4)
    with step(None, "unseen"):
        done(1, 2)
    assert seen.steps == {"one": [0.25, 0.375, 0.4375, 0.5, 1.0]}


def test_items_count_one_by_one_or_a_hundred_times_in_all() -> None:
    seen = Seen()
    with step(seen, "few"):
        assert list(counted("abc", 3)) == ["a", "b", "c"]
    with step(seen, "many"):
        assert sum(1 for _ in counted(range(1000), 1000)) == 1000
    assert seen.steps["few"] == [1 / 3, 2 / 3, 1.0] and len(seen.steps["many"]) == 100


def test_every_step_of_a_run_says_how_far_it_is() -> None:
    """Reading, encoding, clustering, voting and teaching, each more than once and up to its end."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    rows = [[f"{value:.3f}" for value in row] for row in rng.normal(size=(300, 4)) + 2 * labels[:, None]]
    seen = Seen()
    model = PrivateDistiller(1.0, num_queries=12, classes=[0, 1])
    with uncounted():
        model.fit(np.array(rows, dtype=float), labels, X_public=np.array(rows, dtype=float) + 1e-3, progress=seen)
    assert list(seen.steps) == ["read and plan", "represent", "encode the pool", "ask (round 1)", "vote", "teach"]
    for name in ("ask (round 1)", "teach"):
        assert len(seen.steps[name]) > 3 and seen.steps[name][-1] > 0.8, name
    assert seen.steps["encode the pool"][-1] == seen.steps["vote"][-1] == 1.0
    for told in seen.steps.values():
        assert told == sorted(told)


def test_cells_of_an_explorer_are_parts_of_one_step() -> None:
    """Each cell is a plan of its own, whose work reports its own end."""
    seen = Seen()
    grid = SimpleNamespace(order=lambda: [(0, 0, 0), (0, 0, 1)], cell=lambda at: done(1))
    Exploration.fill(SimpleNamespace(grid=grid), seen)  # type: ignore[arg-type]
    assert seen.steps == {"explore: predict": [0.5, 1.0]}


def test_files_say_how_far_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "many.csv").write_text("a,b\n" + "1,2\n" * 20_000)
    (tmp_path / "photos").mkdir()
    for number in range(4):
        Image.new("L", (8, 8)).save(tmp_path / "photos" / f"{number}.png")
    seen = Seen()
    for name in ("many.csv", "photos"):
        with step(seen, name):
            read(tmp_path / name)
    assert len(seen.steps["many.csv"]) > 3 and seen.steps["many.csv"][-1] > 0.9
    assert seen.steps["photos"] == [0.25, 0.5, 0.75, 1.0]


def test_a_step_that_fails_leaves_nothing_behind() -> None:
    seen = Seen()
    with pytest.raises(ZeroDivisionError), step(seen, "one"), part(0, 1, 2):
        raise ZeroDivisionError
    done(1)
    assert seen.steps == {"one": []}


def test_lines_come_now_and_then_with_the_time_left() -> None:
    said: list[str] = []
    now = [0.0]
    with step(Lines(said.append, clock=lambda: now[0]), "vote"):
        for seconds, units in ((0.5, 10), (1, 100), (10, 200), (11, 300), (4000, 301), (4001, 1000)):
            now[0] = float(seconds)
            done(units, 1000)
    assert said == [
        "vote ...",
        "vote: 10 %, about 9 s left",
        "vote: 30 %, about 26 s left",
        "vote: 30 %, about 3 h left",
    ]


def test_where_nobody_says_how_far_it_is_lines_say_how_long_it_took() -> None:
    said: list[str] = []
    now, looks = [0.0], []

    @contextmanager
    def by_hand(look: Callable[[], None]) -> Iterator[None]:
        looks.append(look)
        yield

    with step(Lines(said.append, clock=lambda: now[0], tick=by_hand), "teach"):
        for seconds in (0.5, 3, 9, 200):
            now[0] = float(seconds)
            looks[0]()
        done(1, 2)
        now[0] = 400.0
        looks[0]()
    assert said == ["teach ...", "teach: 3 s so far", "teach: 3 min so far", "teach: 50 %, about 7 min left"]


def test_a_watcher_ends_with_the_step() -> None:
    looked = threading.Event()
    with every_second(looked.set, seconds=0.01):
        assert looked.wait(600)
        (watcher,) = (one for one in threading.enumerate() if one.name == WATCHER)
    assert not watcher.is_alive()


def test_work_goes_on_where_nobody_reads_the_lines() -> None:
    looked = threading.Event()

    def gone() -> None:
        looked.set()
        raise BrokenPipeError

    with every_second(gone, seconds=0.01):
        assert looked.wait(600)


@pytest.mark.parametrize("student", ["mlp", "several"])
def test_students_that_can_say_how_far_they_are_do(student: str) -> None:
    rng, seen = np.random.default_rng(0), Seen()
    rows, labels = rng.normal(size=(60, 3)), np.arange(60) % 2
    with step(seen, "teach"):
        if student == "mlp":
            model = Mlp(hidden=(2,), epochs=4).fit(rows, labels)
            assert "_update_no_improvement_count" not in vars(model.model_)
        else:
            PerClass(Linear()).fit(rows, np.column_stack([labels, 1 - labels, labels, labels]))
    assert seen.steps["teach"] == [0.25, 0.5, 0.75, 1.0]


def test_a_step_that_says_nothing_is_a_line_and_a_bar() -> None:
    said: list[str] = []
    for shown in (Lines(said.append), Silent(), Bars()):
        with step(shown, "teach"):
            pass
    assert said == ["teach ..."]


def test_a_terminal_shows_a_bar_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    import rich.console

    screen = io.StringIO()
    plain = rich.console.Console
    monkeypatch.setattr(
        rich.console, "Console", lambda **options: plain(file=screen, force_terminal=True, width=120, color_system=None)
    )
    with step(Bars(), "teach"):
        done(1, 4)
    assert "teach" in screen.getvalue() and "100%" in screen.getvalue()
    with suppress(KeyboardInterrupt), step(Bars(), "vote"):  # what is seen last is how far it came
        done(1, 4)
        raise KeyboardInterrupt
    last = screen.getvalue().rpartition("vote")[2]
    assert "25%" in last and " left" in last
