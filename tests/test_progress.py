"""Progress: where nobody sees a bar move, lines say how much is done and how long the rest will take."""

from __future__ import annotations

from recordwise.progress import Bars, Lines, Silent


def test_lines_come_now_and_then_with_the_time_left() -> None:
    said: list[str] = []
    now = [0.0]
    with Lines(said.append, clock=lambda: now[0]).step("vote", 1000) as advance:
        for seconds, units in ((1, 10), (10, 90), (11, 100), (30, 100), (4000, 1), (4001, 699)):
            now[0] = float(seconds)
            advance(units)
    assert said == ["vote ...", "vote: 10 %, about 2 min left", "vote: 30 %, about 1 min left", said[3]]
    assert said[3] == "vote: 30 %, about 3 h left"


def test_a_step_of_one_unit_says_no_more_than_that_it_began() -> None:
    said: list[str] = []
    with Lines(said.append).step("teach", 1) as advance:
        advance(1)
    with Silent().step("teach", 1) as advance:
        advance(1)
    with Bars().step("teach", 1) as advance:
        advance(1)
    assert said == ["teach ..."]
