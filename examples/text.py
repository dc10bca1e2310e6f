"""Text: which part of SciPy is a paragraph about?

The texts are the paragraphs of SciPy's own documentation, which every installation has.
Run: python examples/text.py
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from importlib import import_module

import numpy as np

from recordwise.distiller import PrivateDistiller
from recordwise.encoders import encode
from recordwise.students import Linear

TOPICS = ("interpolate", "linalg", "ndimage", "optimize", "signal", "stats")
EPSILON = 1.0

paragraphs: list[tuple[str, str]] = []
for topic in TOPICS:
    package = import_module(f"scipy.{topic}")
    for name in package.__all__:
        for paragraph in re.split(r"\n\s*\n", inspect.getdoc(getattr(package, name)) or ""):
            if len(paragraph) > 60 and ">>>" not in paragraph:
                paragraphs.append((" ".join(paragraph.split()), topic))  # noqa: PERF401  reads better than one line

# Paragraphs that several functions share would be in the pool and among the private ones: left out.
count = Counter(text for text, _ in paragraphs)
single = [(text, topic) for text, topic in paragraphs if count[text] == 1]
order = np.random.default_rng(0).permutation(len(single))
texts = [single[i][0] for i in order]
topics = np.array([single[i][1] for i in order])
public, private, rest = np.split(np.arange(len(texts)), [int(0.4 * len(texts)), int(0.8 * len(texts))])


def some(index: np.ndarray) -> list[str]:
    return [texts[i] for i in index]


# encoder="text": the pool's words, weighted by how rare they are, reduced to its main themes.
model = PrivateDistiller(epsilon=EPSILON, num_queries=100, encoder="text", classes=TOPICS)
model.fit(some(private), topics[private], X_public=some(public))

# For comparison only: the same student, taught the pool's true topics.
true = Linear().fit(encode(model.encoder_, some(public)), topics[public])

print(f"{len(private):,} private paragraphs, {len(public):,} public ones, {len(model.rounds_[0].queries)} queries")
print(f"epsilon {EPSILON}: {model.score(some(rest), topics[rest]):.1%} of test paragraphs right")
print(f"without privacy: {true.score(encode(model.encoder_, some(rest)), topics[rest]):.1%}")
print(f"always the commonest topic: {max(Counter(topics[rest]).values()) / len(rest):.1%}")
print(model.guarantee_)
