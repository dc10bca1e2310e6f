"""A network whose last block is worth fine-tuning: it has learnt to tell the pool's clusters apart. Public."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import nn
from torch.nn import functional

UNITS, CLUSTERS = 32, 100
EPOCHS, BATCH, RATE = 20, 256, 1e-3
TRAINED = ("last", "head")  # by noisy SGD, afterwards


def clusters_network(pool: NDArray[np.float32], num_classes: int, seed: int) -> nn.Module:
    """Two layers that were taught k-means clusters of the pool, and a head of zeros for the classes."""
    owner = torch.as_tensor(KMeans(CLUSTERS, n_init=1, random_state=seed).fit_predict(pool)).long()
    vectors = torch.as_tensor(pool, dtype=torch.float32)
    torch.manual_seed(seed)
    body = nn.Sequential(
        OrderedDict(
            first=nn.Linear(vectors.shape[1], UNITS), bent=nn.ReLU(), last=nn.Linear(UNITS, UNITS), again=nn.ReLU()
        )
    )
    named = nn.Linear(UNITS, CLUSTERS)
    taught = torch.optim.Adam([*body.parameters(), *named.parameters()], lr=RATE)
    for _ in range(EPOCHS):
        for some in torch.split(torch.randperm(len(vectors)), BATCH):
            taught.zero_grad()
            functional.cross_entropy(named(body(vectors[some])), owner[some]).backward()  # type: ignore[no-untyped-call]
            taught.step()
    head = nn.Linear(UNITS, num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    body.add_module("head", head)
    return body
