"""Bytes like given ones: what a seeded mutator makes of a few examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recordwise.randomness import seeded

WORDS = [
    b"", b"\x00", b"\xff" * 8, b"\x7f" * 8, b"9" * 400, b"-1", b"1e999", b"NaN", b"null", b"true", b"[" * 200, b"{}",
    b'"\\ud800"', b"1/0", b"0", b'"', b"'", b",", b":", b"\n", b"__class__", b"\xed\xa0\x80", b"(" * 200, b"<U0",
]  # fmt: skip


def mutations(examples: Sequence[bytes], count: int, seed: int = 0) -> Iterator[bytes]:
    """So many neighbours of the examples, a few changes away from one of them; the same for the same seed."""
    rng = seeded(seed, "mutations")
    for _ in range(count):
        content = bytearray(examples[int(rng.integers(len(examples)))])
        for _ in range(int(rng.geometric(0.5))):
            size = len(content)
            start = int(rng.integers(size + 1))
            end = min(size, start + int(rng.geometric(0.1)))
            match int(rng.integers(7)):
                case 0 if size:
                    content[start % size] ^= 1 << int(rng.integers(8))
                case 1 if size:
                    content[start % size] = int(rng.integers(256))
                case 2:
                    del content[start:end]
                case 3:
                    content[start:start] = content[start:end]
                case 4:
                    content[start:end] = WORDS[int(rng.integers(len(WORDS)))]
                case 5:
                    del content[start:]
                case _:
                    other = examples[int(rng.integers(len(examples)))]
                    at = int(rng.integers(len(other) + 1))
                    content[start:end] = other[at : at + int(rng.geometric(0.02))]
        yield bytes(content)
