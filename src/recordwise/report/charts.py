"""Pictures as inline SVG: drawn here, so that the page needs no script, no font and no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 560, 300, 64, 44, 16, 16
KEYS_INSIDE, KEYS_WIDTH = 3, 140  # more names than this stand beside the curves, not on them
LETTER_WIDTH = 6.5
TICK_WIDTH = 42  # ticks nearer than this would be written over each other


# Blues, ochres, violets: no red and no green, which would read as bad and good. Then the same, lighter and darker.
HUES, LIGHTNESS = (222, 38, 286, 194, 322, 52, 250, 306), (50, 68, 36)


def colour(index: int) -> str:
    """A colour per class; neighbours in number lie far apart. Unlabelled is grey."""
    if index < 0:
        return "#8a949e"
    return f"hsl({HUES[index % len(HUES)]} 52% {LIGHTNESS[index // len(HUES) % len(LIGHTNESS)]}%)"


def curves(series: Mapping[str, Sequence[tuple[float, float, float]]], *, x_label: str, y_label: str) -> str:
    """Named curves of (x, y, spread), x on a logarithmic scale; the spread is a band of one deviation each way."""
    points = [point for curve in series.values() for point in curve]
    place_x = _scale([x for x, _, _ in points], LEFT, WIDTH - RIGHT, log=True)
    lowest = min(y - s for _, y, s in points)
    place_y = _scale([max(0.0, math.floor(lowest * 10) / 10), 1.0], HEIGHT - BOTTOM, TOP)
    parts = [_axes(sorted({x for x, _, _ in points}), place_x, _ticks(place_y), place_y, x_label, y_label)]
    beside = KEYS_WIDTH if len(series) > KEYS_INSIDE else 0
    key = f'x="{WIDTH}"' if beside else f'x="{WIDTH - RIGHT - 8}" text-anchor="end"'
    for index, (name, curve) in enumerate(series.items()):
        ordered = sorted(curve)
        upper = [f"{place_x(x):.1f},{place_y(min(1, y + s)):.1f}" for x, y, s in ordered]
        lower = [f"{place_x(x):.1f},{place_y(max(0, y - s)):.1f}" for x, y, s in reversed(ordered)]
        line = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y, _ in ordered)
        parts.append(f'<polygon class="band s{index}" points="{" ".join(upper + lower)}"/>')
        parts.append(f'<polyline class="line s{index}" points="{line}"/>')
        parts += [
            f'<circle class="dot s{index}" cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="3.5">'
            f"<title>{escape(name)}: {100 * y:.1f} % at {x:g}</title></circle>"
            for x, y, _ in ordered
        ]
        foot = HEIGHT - BOTTOM - 12 - 18 * index
        parts.append(f'<text class="key s{index}" {key} y="{foot}">{escape(name)}</text>')
    return _svg(parts, f"{y_label} against {x_label}", width=WIDTH + beside)


def shares(values: Sequence[tuple[str, float, float]], *, x_label: str) -> str:
    """Named shares (name, value in [0, 1], spread), longest names to the left; the spread is a line each way."""
    each, left, width = 24, 150, WIDTH
    height = TOP + each * len(values) + BOTTOM
    place = _scale([0.0, 1.0], left, width - RIGHT - 40)
    middle = f'x="{(left + width) / 2:.0f}" y="{height - 6}" text-anchor="middle"'
    parts = [f'<text class="axis" {middle}>{escape(x_label)}</text>']
    for index, (name, value, spread) in enumerate(values):
        top = TOP + each * index
        low, high = place(max(0.0, value - spread)), place(min(1.0, value + spread))
        parts.append(
            f'<text class="tick" x="{left - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="blob" x="{left}" y="{top + 3}" width="{place(value) - left:.1f}" height="{each - 6}" '
            f'fill="{colour(index)}"><title>{escape(name)}: {100 * value:.1f} %</title></rect>'
            f'<line class="mark" x1="{low:.1f}" x2="{high:.1f}" y1="{top + each / 2}" y2="{top + each / 2}"/>'
            f'<text class="tick" x="{high + 6:.1f}" y="{top + 15}">{100 * value:.1f} %</text>'
        )
    return _svg(parts, x_label, height=height)


def scatter(
    points: Sequence[tuple[float, float, float, int, str]], *, x_label: str, y_label: str, mark_x: float | None = None
) -> str:
    """Dots (x, y in [0, 1], weight, class, title); the area of a dot is its weight."""
    place_x = _scale([0.0, *(max(0.0, x) for x, *_ in points)], LEFT, WIDTH - RIGHT)
    place_y = _scale([0.0, 1.0], HEIGHT - BOTTOM, TOP)
    heaviest = max((weight for _, _, weight, _, _ in points), default=1.0) or 1.0
    parts = [_axes(_ticks(place_x), place_x, _ticks(place_y), place_y, x_label, y_label, percent_x=False)]
    if mark_x is not None:
        at = f"{place_x(mark_x):.1f}"
        parts.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    for x, y, weight, index, title in sorted(points, key=lambda point: -point[2]):
        radius = 3 + 9 * math.sqrt(weight / heaviest)
        parts.append(
            f'<circle class="blob" cx="{place_x(max(0.0, x)):.1f}" cy="{place_y(y):.1f}" r="{radius:.1f}" '
            f'fill="{colour(index)}"><title>{escape(title)}</title></circle>'
        )
    return _svg(parts, f"{y_label} against {x_label}")


def heatmap(cells: Sequence[Sequence[float]], *, rows: Sequence[str], columns: Sequence[str], titles: str) -> str:
    """A table of counts as colours: white at zero or below, dark at the largest."""
    width, left, top = 560, 8, 22
    height_each = max(2.0, min(18.0, 420 / max(1, len(cells))))
    each = (width - left - 8) / max(1, len(columns))
    largest = max((value for row in cells for value in row), default=1.0) or 1.0
    letters = int(each / LETTER_WIDTH)  # names that do not fit are in the cells' titles
    parts = [
        f'<text class="tick" x="{left + (j + 0.5) * each:.1f}" y="14" text-anchor="middle">{escape(name)}</text>'
        for j, name in enumerate([name[:letters] for name in columns] if letters > 1 else [])
    ]
    for i, row in enumerate(cells):
        for j, value in enumerate(row):
            strength = max(0.0, value / largest) ** 0.7
            parts.append(
                f'<rect class="cell" x="{left + j * each:.1f}" y="{top + i * height_each:.1f}" width="{each - 1:.1f}" '
                f'height="{max(1.0, height_each - 0.6):.1f}" fill-opacity="{strength:.3f}">'
                f"<title>{escape(rows[i])}, {escape(columns[j])}: {value:.0f} {escape(titles)}</title></rect>"
            )
    return _svg(parts, "noisy tally", height=top + height_each * len(cells) + 6)


def bars(heights: Sequence[float], *, edges: Sequence[float], x_label: str, y_label: str) -> str:
    """A histogram with the given bin edges."""
    place_x = _scale([edges[0], edges[-1]], LEFT, WIDTH - RIGHT)
    place_y = _scale([0.0, max([*heights, 1e-9])], HEIGHT - BOTTOM, TOP)
    parts = [_axes(_ticks(place_x), place_x, _ticks(place_y), place_y, x_label, y_label, percent_y=True)]
    for i, height in enumerate(heights):
        x0, x1 = place_x(edges[i]), place_x(edges[i + 1])
        y = place_y(height)
        parts.append(
            f'<rect class="bar" x="{x0 + 1:.1f}" y="{y:.1f}" width="{x1 - x0 - 2:.1f}" '
            f'height="{HEIGHT - BOTTOM - y:.1f}"><title>{100 * height:.1f} % of the pool</title></rect>'
        )
    return _svg(parts, f"{y_label} against {x_label}")


class _scale:  # noqa: N801  # used as a function
    """Maps values to pixels, linearly or by logarithm."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool = False) -> None:
        self.low, self.high = min(values), max(values)
        self.start, self.end, self.log = start, end, log and self.low > 0
        if self.high == self.low:
            self.high = self.low + 1

    def __call__(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = math.log(value) if self.log else value
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def _ticks(scale: _scale) -> list[float]:
    span = scale.high - scale.low
    step = 10 ** math.floor(math.log10(span / 4)) if span > 0 else 1
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
    first = math.ceil(scale.low / step - 1e-9)
    return [index * step for index in range(first, math.floor(scale.high / step + 1e-9) + 1)]


def _axes(
    x_ticks: Sequence[float],
    place_x: _scale,
    y_ticks: Sequence[float],
    place_y: _scale,
    x_label: str,
    y_label: str,
    *,
    percent_x: bool = False,
    percent_y: bool = True,
) -> str:
    def shown(value: float, percent: bool) -> str:
        return f"{100 * value:.0f} %" if percent else f"{value:g}"

    middle_x, middle_y, foot = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2, HEIGHT - BOTTOM + 18
    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place_y(y):.1f}" y2="{place_y(y):.1f}"/>'
        f'<text class="tick" x="{LEFT - 8}" y="{place_y(y) + 4:.1f}" text-anchor="end">{shown(y, percent_y)}</text>'
        for y in y_ticks
    ]
    written = -math.inf
    for x in x_ticks:
        if place_x(x) >= written + TICK_WIDTH:
            written = place_x(x)
            parts.append(
                f'<text class="tick" x="{written:.1f}" y="{foot}" text-anchor="middle">{shown(x, percent_x)}</text>'
            )
    parts.append(f'<text class="axis" x="{middle_x}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    turned = f'transform="rotate(-90)" x="{-middle_y}" y="13" text-anchor="middle"'
    parts.append(f'<text class="axis" {turned}>{escape(y_label)}</text>')
    return "".join(parts)


def _svg(parts: Sequence[str], label: str, *, width: float = WIDTH, height: float = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label, quote=True)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
