"""Static word vectors: what they give, and that they are read with care."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recordwise.encoders import encoder_from, fingerprint
from recordwise.encoders.words import Words, read_word_vectors
from recordwise.errors import InvalidInput

LINES = "4 2\ncat 1 0\ndog 0.9 0.1\nsum 0 1\nthe 0.5 0.5\n"
POOL = ["the cat", "the dog", "the sum", "the the"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.vec"
    path.write_text(LINES)
    return path


def test_a_text_is_the_mean_of_its_words_at_unit_length(file: Path) -> None:
    encoder = Words(file).fit(POOL)
    cat, dog, total, nothing = encoder.transform(["cat", "Dog cat", "sum", "unknown"])
    assert np.allclose(cat, [1, 0]) and np.allclose(total, [0, 1]) and not nothing.any()
    assert np.allclose(np.linalg.norm(dog), 1) and cat @ dog > 0.9 > total @ dog


def test_a_word_that_the_pool_never_used_counts_as_well(file: Path) -> None:
    encoder = Words(file).fit(["the cat"])
    assert np.allclose(encoder.transform(["dog"])[0], np.array([0.9, 0.1]) / np.hypot(0.9, 0.1), atol=1e-6)


def test_a_rare_word_counts_more_than_one_that_every_text_has(file: Path) -> None:
    rare = Words(file).fit(POOL).transform(["the cat"])[0]
    common = Words(file).fit(["the cat"]).transform(["the cat"])[0]
    assert rare[0] > common[0]


def test_it_is_named_by_its_file_and_printed_by_its_content(file: Path, tmp_path: Path) -> None:
    encoder = encoder_from({"name": str(file), "max_words": 3}, POOL, seed=0).fit(POOL)
    assert len(encoder.words_.vocabulary_) == 3
    assert str(tmp_path) not in repr(encoder)
    other = tmp_path / "other.vec"
    other.write_text(LINES.replace("0.9", "0.8"))
    assert fingerprint(Words(file).fit(POOL)) != fingerprint(Words(other).fit(POOL))
    (tmp_path / "same.vec").write_text(LINES)
    assert fingerprint(Words(file).fit(POOL)) == fingerprint(Words(tmp_path / "same.vec").fit(POOL))


@pytest.mark.parametrize("content", ["", "a b c\n", "a 1 2\nb 1 2 3\n", "a 1 nan\n", "\xff"])
def test_what_holds_no_vectors_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidInput, match="word vectors"):
        read_word_vectors(path, 10)
    with pytest.raises(InvalidInput, match="word vectors"):
        read_word_vectors(tmp_path / "missing.txt", 10)


def test_a_pool_without_any_known_word_is_refused(file: Path) -> None:
    with pytest.raises(InvalidInput, match="must hold words of"):
        Words(file).fit(["nothing here"])
