"""Handwritten digits: label public images with private ones, and publish the classifier.

Uses MNIST where RECORDWISE_DATA names a folder that holds it, else the small digits that come with scikit-learn.
Run: python examples/images.py
"""

from __future__ import annotations

import os

import numpy as np
from sklearn.datasets import load_digits

from recordwise.data import VARIABLE, Rule, load, parts_of
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import encode
from recordwise.students import Linear

if os.environ.get(VARIABLE):
    parts = parts_of(load("mnist"), Rule.CLEAN)
    pool, pool_labels = parts.public.samples[:10_000], parts.public.labels[:10_000]
    images, labels = parts.private.samples, parts.private.labels
    test, test_labels = parts.test.samples, parts.test.labels
    epsilon, num_queries = 0.1, 200
else:
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    public, private, rest = order[:700], order[700:1400], order[1400:]
    pool, pool_labels = digits.images[public], digits.target[public]
    images, labels = digits.images[private], digits.target[private]
    test, test_labels = digits.images[rest], digits.target[rest]
    epsilon, num_queries = 2.0, 30

# The pool is public and unlabelled; the images and labels of the second line are what must be protected.
model = PrivateDistiller(epsilon=epsilon, num_queries=num_queries, encoder="hog+pca", classes=np.arange(10))
model.fit(images, labels, X_public=pool)

# For comparison only: the same student, taught the pool's true labels.
true = Linear().fit(encode(model.encoder_, pool), pool_labels)

print(f"{len(images):,} private images, {len(pool):,} public ones, {len(model.rounds_[0].queries)} queries")
print(f"epsilon {epsilon}: {model.score(test, test_labels):.1%} of test images right")
print(f"without privacy: {true.score(encode(model.encoder_, test), test_labels):.1%}")
print(f"{(model.pool_labels_ == pool_labels).mean():.1%} of the pool's labels are right")
print(model.guarantee_)
