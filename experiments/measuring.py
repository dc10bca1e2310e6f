"""What a network's features and clusters are worth, and a log that keeps it. True labels measure, after the fact."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from benchmarks.provenance import hardware, versions
from torch import Tensor, nn
from torch.nn import functional

from experiments.images import Images
from experiments.rows import CLASSES
from recordwise.vision.self_supervised import features_of
from recordwise.vision.spherical import spherical_kmeans
from recordwise.vision.steps import Compute

CLUSTERS = (10, 40, 100, 500)  # numbers of k-means clusters whose purity is measured


class Log:
    """What happened when: printed as it goes, kept as JSON."""

    def __init__(self, path: Path) -> None:
        self.path, self.began = path, time.time()
        self.facts: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}

    def say(self, **facts: object) -> None:
        self.facts.update(facts)
        print(f"[{time.time() - self.began:7.1f}s] " + " ".join(f"{k}={v}" for k, v in facts.items()), flush=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.facts, indent=1))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.time()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.say(**{f"{name}_seconds": round(time.time() - started, 1)})


def made_by(compute: Compute) -> dict[str, object]:
    """Versions and hardware, for the results."""
    gpu = torch.cuda.get_device_properties(0) if compute.on_gpu else None
    return {
        "versions": versions("torch", "numpy"),
        "hardware": {"processor": gpu.name, "memory_gib": gpu.total_memory >> 30} if gpu else hardware(),
    }


def directions(network: nn.Module, images: Tensor, compute: Compute, *, mirror: bool) -> Tensor:
    """Features on the unit sphere."""
    return functional.normalize(features_of(network, images, compute, mirror=mirror), dim=1)


def measure(network: nn.Module, images: Images, compute: Compute, log: Log, name: str, *, mirror: bool) -> None:
    """How well the true labels lie in these features: k-NN accuracy, and purity of k-means clusters."""
    seen = {part: directions(network, pixels, compute, mirror=mirror) for part, pixels in images.parts.items()}
    found = {f"{name}_knn_test": round(knn_accuracy(seen["public"], images.public_labels, seen["test"], images), 4)}
    for clusters in CLUSTERS:
        generator = compute.generator(clusters)
        groups = spherical_kmeans(seen["public"], clusters, generator, restarts=5 if clusters < 100 else 1)
        found[f"{name}_purity{clusters}"] = round(purity(groups.assignment, images.public_labels), 4)
    log.say(**found)


def measure_clusters(
    network: nn.Module, images: Images, compute: Compute, log: Log, name: str, *, mirror: bool
) -> None:
    """Purity of the network's own clusters on pool and test."""
    found = {}
    for part, labels in (("public", images.public_labels), ("test", images.test_labels)):
        clusters = features_of(network, images.parts[part], compute, mirror=mirror).argmax(1)
        found[f"{name}_{part}"] = round(purity(clusters, labels), 4)
    log.say(**found)


def knn_accuracy(bank: Tensor, bank_labels: Tensor, asked: Tensor, images: Images, count: int = 20) -> float:
    right = 0
    for start in range(0, len(asked), 2000):
        alike, index = (asked[start : start + 2000] @ bank.T).topk(count, dim=1)
        votes = functional.one_hot(bank_labels[index], CLASSES) * (alike / 0.1).exp()[..., None]
        right += int((votes.sum(1).argmax(1) == images.test_labels[start : start + 2000]).sum())
    return right / len(asked)


def purity(clusters: Tensor, labels: Tensor) -> float:
    """Share of points whose label is the most frequent one of their cluster: label accuracy without noise."""
    table = torch.zeros(int(clusters.max()) + 1, CLASSES, device=labels.device)
    table.index_put_((clusters, labels), torch.ones(len(labels), device=labels.device), accumulate=True)
    return float(table.max(1).values.sum()) / len(labels)


def share(found: Tensor, wanted: Tensor | bool) -> float:
    """How often two answers are the same."""
    return round(float((found == wanted).float().mean()), 4)
