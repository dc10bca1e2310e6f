from __future__ import annotations

import itertools
import re

from recordwise.report.charts import TICK_WIDTH, WIDTH, curves


def drawn(count: int, xs: tuple[float, ...]) -> str:
    return curves({f"c{i}": [(x, 0.5, 0.1) for x in xs] for i in range(count)}, x_label="epsilon", y_label="accuracy")


def test_few_names_stand_in_the_picture_and_many_beside_it() -> None:
    few, many = drawn(2, (0.1, 1.0)), drawn(6, (0.1, 1.0))
    assert f'viewBox="0 0 {WIDTH} ' in few
    assert f'viewBox="0 0 {WIDTH} ' not in many
    assert all(float(x) >= WIDTH for x in re.findall(r'class="key s\d" x="(\d+)"', many))
    assert len(re.findall(r'class="key', many)) == 6


def test_ticks_are_never_written_over_each_other() -> None:
    picture = drawn(1, (0.0025, 0.004, 0.005, 0.01, 0.04, 1.0))
    places = [float(x) for x in re.findall(r'class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="middle"', picture)]
    assert places == sorted(places)
    assert min(b - a for a, b in itertools.pairwise(places)) >= TICK_WIDTH
    assert len(places) == 5  # 0.004 lies next to 0.0025
