"""A job file gets other values and keeps everything else; what cannot be edited safely is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from exploring import JOB
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import InvalidInput
from recordwise.explorer.editing import edited, trusting, write_beside

EPSILON, QUERIES = ("privacy", "epsilon"), ("method", "num_queries")


def test_only_the_chosen_values_change() -> None:
    made = edited(JOB, {EPSILON: 0.25, QUERIES: 12, ("privacy", "trust"): "local"})
    assert made == JOB.replace("epsilon = 1.0", 'trust = "local"\nepsilon = 0.25').replace(
        "num_queries = 6", "num_queries = 12"
    )
    assert edited(JOB, {EPSILON: 1.0, QUERIES: 6}) == JOB


def test_line_endings_and_a_last_line_without_one_stay() -> None:
    text = '[method]\r\nclasses = ["a"] # all\r\nnum_queries = "auto" # as many as pay\r\n[privacy]'
    made = edited(text, {QUERIES: 9, EPSILON: 2.0})
    assert made == text.replace('"auto"', "9") + "\nepsilon = 2.0\n"


@pytest.mark.parametrize(
    "text",
    [
        "privacy = { epsilon = 1.0 }\n[method]\nnum_queries = 3\n",
        "privacy.epsilon = 1.0\n[method]\nnum_queries = 3\n",
        'note = """\n[privacy]\nepsilon = 1.0\n"""\n["privacy"]\nepsilon = 1.0\n',
        '[privacy]\n"epsilon" = 1.0\n',
    ],
)
def test_what_cannot_be_edited_safely_is_refused_with_the_lines_to_write(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"set by hand: privacy\.epsilon = 0\.5"):
        edited(text, {EPSILON: 0.5})


@given(
    st.lists(
        st.sampled_from([*JOB.splitlines(), "", "[[x]]", '"""', "epsilon = 3 # [method]", "[privacy.trust]", "]"])
    ),
    st.floats(1e-3, 1e3),
)
def test_whatever_the_file_looks_like_an_edit_is_right_or_refused(lines: list[str], epsilon: float) -> None:
    text = "\n".join(lines)
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    if not isinstance(before.get("privacy", {}), dict):
        return
    try:
        after = tomllib.loads(edited(text, {EPSILON: epsilon}))
    except InvalidInput:
        return
    assert after == before | {"privacy": before.get("privacy", {}) | {"epsilon": epsilon}}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("", 'trust = { name = "distributed", parties = 2 }\n'),
        ('trust = "central"', 'trust = { name = "distributed", parties = 2 }'),
        ("trust = {parties = 5, colluding = 2}", 'trust = { parties = 5, colluding = 2, name = "distributed" }'),
        ("[privacy.trust]\nparties = 5", '[privacy.trust]\nname = "distributed"\nparties = 5'),
    ],
)
def test_settings_of_trust_stay_with_another_trust(told: str, expected: str) -> None:
    text = f"[privacy]\nepsilon = 1.0\n{told}\n"
    made = edited(text, trusting(tomllib.loads(text), text, "distributed", 2))
    assert expected in made
    one = "[privacy]\nepsilon = 1.0\n"
    assert 'trust = "local"' in edited(one, trusting(tomllib.loads(one), one, "local", 2))


def test_no_file_is_overwritten_and_a_secret_one_stays_secret(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    job.chmod(0o600)
    places = [write_beside(job, {EPSILON: epsilon}) for epsilon in (0.5, 0.25)]
    assert [place.name for place in places] == ["job-explored.toml", "job-explored-2.toml"]
    assert job.read_text() == JOB
    for place, epsilon in zip(places, (0.5, 0.25), strict=True):
        assert tomllib.loads(place.read_text())["privacy"]["epsilon"] == epsilon
        assert place.stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 3
    job.write_text(JOB.replace("epsilon = 1.0", "epsilon = 1.0\nepsilom = 2.0"))
    with pytest.raises(InvalidInput, match=r"job\.toml is no job file any more"):
        write_beside(job, {EPSILON: 0.5})
    assert len(list(tmp_path.iterdir())) == 3
