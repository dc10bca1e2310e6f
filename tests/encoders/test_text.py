from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from recordwise.encoders import Text
from recordwise.errors import InvalidInput

POOL = ["the cat sat", "a cat and a dog", "dogs chase a cat", "stocks fell", "stocks and bonds fell", "bonds rose"]


def test_texts_about_one_thing_are_nearest_each_other() -> None:
    encoder = Text(dim=3).fit(POOL)
    vectors = encoder.transform(POOL)
    assert vectors.dtype == np.float32
    assert vectors.shape == (6, 3)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    new = encoder.transform(np.array(["my cat", "bonds fell"], dtype=object))
    assert (new @ vectors.T).argmax(axis=1)[0] in (0, 1, 2)
    assert (new @ vectors.T).argmax(axis=1)[1] in (3, 4, 5)


def test_a_text_of_unknown_words_is_the_zero_vector() -> None:
    assert not Text(dim=3).fit(POOL).transform(["xyzzy", ""]).any()


def test_the_weights_are_those_of_scikit_learn() -> None:
    themes = make_pipeline(TfidfVectorizer(sublinear_tf=True), TruncatedSVD(3, algorithm="arpack"), Normalizer())
    theirs = themes.fit(POOL).transform([*POOL, "cat cat cat dog"])
    ours = Text(dim=3).fit(POOL).transform([*POOL, "cat cat cat dog"])
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-5)  # up to the themes' signs


def test_themes_are_at_most_what_the_pool_has() -> None:
    assert Text(dim=100).fit(POOL).transform(POOL).shape == (6, 6)


def test_bad_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="row 1 is a float"):
        Text().fit(["a word", float("nan")])
    with pytest.raises(InvalidInput, match="pool must hold words"):
        Text().fit(["", "?"])
    with pytest.raises(InvalidInput, match="at least two different words, it holds 1"):
        Text().fit(["word", "word"])
    with pytest.raises(InvalidInput, match=r"one string each, got shape \(2, 2\)"):
        Text().fit(pd.DataFrame({"first column": [1, 2], "second": [3, 4]}))  # its names are strings
