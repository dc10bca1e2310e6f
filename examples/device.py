"""Phones label a server's photo clusters, and nobody learns what any phone holds: `python examples/device.py`.

A server publishes twenty queries. Each of 10,000 phones holds one record (here: a handwritten digit, as scikit-learn
bundles them), answers once with a message of 25 bytes, header included, and the server learns a label for every
query. One phone runs as a process of its own, the way it would be deployed: it needs NumPy and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from recordwise.device import Task
from recordwise.labels import decode
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import Collision, Inbox
from recordwise.streams import stream
from recordwise.votes.ballot import Ballot

PHONES = 10_000
QUERIES, CLASSES = 20, 10


def main() -> None:
    digits = load_digits()
    order = stream(0, "split").permutation(len(digits.data))
    public, private = order[:900], order[900:]
    clusters = KMeans(QUERIES, n_init=4, random_state=0).fit(digits.data[public])

    mechanism = Collision(ballot=Ballot(num_queries=QUERIES, num_classes=CLASSES), epsilon=Fraction(2))
    task = Task(mechanism=mechanism, queries=clusters.cluster_centers_)
    inbox = Inbox(mechanism)

    with tempfile.TemporaryDirectory() as folder:
        one_phone(task, Path(folder), digits.data[private[0]], int(digits.target[private[0]]), inbox)
    for record in stream(0, "phones").choice(private, PHONES - 1):
        inbox.receive(task.answer(digits.data[record], [int(digits.target[record])], SystemNoise()))

    tally = mechanism.server(inbox.answers, SystemNoise())
    sizes = np.bincount(clusters.labels_, minlength=QUERIES)
    labels = decode(tally, sizes=sizes, graph=None, num_records=len(inbox)).hard
    right = labels[clusters.labels_] == digits.target[public]
    print(
        f"{len(inbox):,} answers of {mechanism.message_size} bytes; a cell is off by about {tally.noise_std:.0f} votes"
    )
    print("labels of the queries:", labels)
    print(f"{right.mean():.1%} of the server's images are labelled right")
    print(tally.guarantee)


def one_phone(task: Task, folder: Path, vector: np.ndarray, label: int, inbox: Inbox) -> None:
    """What a deployed phone does: read the task, answer, send."""
    task.save(folder / "task.npz")
    np.save(folder / "record.npy", vector)
    command = ["-m", "recordwise.device", "task.npz", "--record", "record.npy", "--labels", str(label), "--out", "sent"]
    account = ["--account", "account.json", "--cap", "4"]  # two such answers in its life, and then no more
    subprocess.run([sys.executable, *command, *account], cwd=folder, check=True)
    inbox.receive((folder / "sent").read_bytes())


if __name__ == "__main__":
    main()
