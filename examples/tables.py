"""A table of people: who earns more than 50,000 dollars a year?

Uses Adult where RECORDWISE_DATA names a folder that holds it, else the breast cancer table that scikit-learn brings.
Run: python examples/tables.py
"""

from __future__ import annotations

import os

import numpy as np
from sklearn.datasets import load_breast_cancer

from recordwise.data import VARIABLE, Rule, load, parts_of
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import encode
from recordwise.students import Linear

if os.environ.get(VARIABLE):
    parts = parts_of(load("adult"), Rule.CLEAN)  # numbers and categories as they were collected
    pool, pool_labels = parts.public.samples, parts.public.labels
    rows, labels = parts.private.samples, parts.private.labels
    test, test_labels = parts.test.samples, parts.test.labels
    epsilon, num_queries = 0.5, 200
else:
    table = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(table.data))
    public, private, rest = order[:200], order[200:400], order[400:]
    pool, pool_labels = table.data[public], table.target[public]
    rows, labels = table.data[private], table.target[private]
    test, test_labels = table.data[rest], table.target[rest]
    epsilon, num_queries = 2.0, 8

# encoder="table": numbers clipped and scaled, one coordinate per category, by what the public rows hold.
model = PrivateDistiller(epsilon=epsilon, num_queries=num_queries, encoder="table", classes=[0, 1])
model.fit(rows, labels, X_public=pool)

# For comparison only: the same student, taught the pool's true labels.
true = Linear().fit(encode(model.encoder_, pool), pool_labels)

print(f"{len(rows):,} private rows, {len(pool):,} public ones, {len(model.rounds_[0].queries)} queries")
print(f"epsilon {epsilon}: {model.score(test, test_labels):.1%} of test rows right")
print(f"without privacy: {true.score(encode(model.encoder_, test), test_labels):.1%}")
print(f"always the commonest class: {np.bincount(test_labels).max() / len(test_labels):.1%}")
print(model.guarantee_)
