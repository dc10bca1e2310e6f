"""Local trust at scale: client answers and server decodes per second: `python -m benchmarks.local` (`gpu` for a GPU).

Peers are pure-ldp and multi-freq-ldpy, whose optimal local hashing is Collision at c = 1; they need xxhash < 4 and
statsmodels. They hash one point at a time in Python, so they are measured on as many messages as they finish in
seconds, and rates are compared: answers per second, and (message, cell) pairs decoded per second. Ours uses all cores,
theirs one, as each comes; `one_core` is ours on one. Ours hashes with exact independence and flips exact coins with
entropy of the operating system; theirs draws floats from NumPy's and Python's generators.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
from benchmarks import provenance

from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import Answers, Collision, Engine, Inbox, pack
from recordwise.protocols.local.hits import count_hits
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot, Votes

EPSILON = 1
MESSAGES = 1_000_000
WIDE = Ballot(num_queries=100, num_classes=50)  # d = 5,000 cells
SMALL = Ballot(num_queries=10, num_classes=10)
DEVICES = 10_000_000
PEER_ANSWERS, PEER_MESSAGES = 20_000, 400
PEERS = ("pure-ldp", "multi-freq-ldpy", "xxhash", "numba")
NOISE = SystemNoise()


def main() -> None:
    mechanism = Collision(ballot=WIDE, epsilon=Fraction(EPSILON))
    votes = random_votes(WIDE, MESSAGES)
    answers = mechanism.client(votes, NOISE)
    rows = [answering(mechanism, votes), decoding(mechanism, answers)]
    rows += [several_votes(2), several_votes(4), ten_million_devices()]
    path = provenance.write("local", rows)
    for row in rows:
        beside = ", ".join(f"{ratio:,.0f} × {peer}" for peer, ratio in row["ratio"].items())
        print(f"{row['name']:<32} {row['ours']:>16,.0f} {row['unit']:<12} {beside}")
    print(f"written to {path.relative_to(path.parents[2])}")


def random_votes(ballot: Ballot, count: int) -> Votes:
    rng = seeded(0, "votes")
    first = rng.integers(0, ballot.num_queries, (count, 1), dtype=np.int32)
    queries = (first + np.arange(ballot.votes_per_record, dtype=np.int32)) % ballot.num_queries
    return Votes(ballot, queries, rng.integers(0, ballot.num_classes, (count, 1), dtype=np.int32))


def answering(mechanism: Collision, votes: Votes) -> provenance.Row:
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Client
    from pure_ldp.frequency_oracles.local_hashing import LHClient

    cells = votes.cells()[:PEER_ANSWERS, 0].tolist()
    pure = LHClient(epsilon=EPSILON, d=WIDE.num_cells, use_olh=True, index_mapper=int)
    ours = provenance.seconds(lambda: mechanism.client(votes, NOISE))
    return provenance.row(
        "client answers",
        size={"records": len(votes), "cells": WIDE.num_cells, "epsilon": EPSILON, "peer_records": PEER_ANSWERS},
        unit="answers/s",
        ours=len(votes) / ours,
        peers={
            "pure-ldp": PEER_ANSWERS / provenance.seconds(lambda: [pure.privatise(cell) for cell in cells]),
            "multi-freq-ldpy": PEER_ANSWERS
            / provenance.seconds(lambda: [LH_Client(cell, WIDE.num_cells, EPSILON) for cell in cells]),
        },
        packages=PEERS,
        message_bytes=mechanism.message_size,
    )


def decoding(mechanism: Collision, answers: Answers) -> provenance.Row:
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer

    cells = WIDE.num_cells
    client = LHClient(epsilon=EPSILON, d=cells, use_olh=True, index_mapper=int)
    pure_reports = [client.privatise(i) for i in range(PEER_MESSAGES)]
    multi_reports = [LH_Client(i, cells, EPSILON) for i in range(PEER_MESSAGES)]

    def pure_ldp() -> None:
        server = LHServer(epsilon=EPSILON, d=cells, use_olh=True, index_mapper=int)
        for report in pure_reports:
            server.aggregate(report)

    mechanism.server([Answers(answers.bodies[:1000])], NOISE, engine=Engine.NUMBA)  # compile
    keys, buckets = mechanism.channel.unpack(answers.bodies[:100_000])
    pairs, peer_pairs = len(answers) * cells, PEER_MESSAGES * cells
    family = mechanism.channel.family
    return provenance.row(
        "server decodes",
        size={"messages": len(answers), "cells": cells, "epsilon": EPSILON, "peer_messages": PEER_MESSAGES},
        unit="pairs/s",
        ours=pairs / provenance.seconds(lambda: mechanism.server([answers], NOISE, engine=Engine.NUMBA)),
        peers={
            "pure-ldp": peer_pairs / provenance.seconds(pure_ldp, repeats=1),
            "multi-freq-ldpy": peer_pairs
            / provenance.seconds(lambda: LH_Aggregator_MI(multi_reports, cells, EPSILON), repeats=1),
        },
        packages=PEERS,
        one_core=len(keys) * cells / provenance.seconds(lambda: count_hits(family, keys, buckets, Engine.NUMBA)),
        without_numba=pairs
        / provenance.seconds(lambda: mechanism.server([answers], NOISE, engine=Engine.NUMPY), repeats=1),
    )


def gpu() -> None:
    """The same decode on a GPU beside the machine's processor; results go to a file of their own."""
    import torch

    engine = Engine.NUMBA if find_spec("numba") else Engine.NUMPY
    mechanism = Collision(ballot=WIDE, epsilon=Fraction(EPSILON))
    answers = mechanism.client(random_votes(WIDE, MESSAGES), NOISE)
    pairs = len(answers) * WIDE.num_cells
    on_gpu = mechanism.server([answers], NOISE, engine=Engine.TORCH).estimate
    on_cpu = mechanism.server([answers], NOISE, engine=engine).estimate
    row = provenance.row(
        "server decodes, GPU",
        size={"messages": len(answers), "cells": WIDE.num_cells, "epsilon": EPSILON},
        unit="pairs/s",
        ours=pairs / provenance.seconds(lambda: mechanism.server([answers], NOISE, engine=Engine.TORCH)),
        peers={
            f"ours on the CPU, {engine}": pairs
            / provenance.seconds(lambda: mechanism.server([answers], NOISE, engine=engine), repeats=1)
        },
        packages=("torch",),
        gpu=torch.cuda.get_device_name(),
        largest_difference=float(np.abs(on_gpu - on_cpu).max()),
    )
    print(json.dumps(row, indent=2))
    provenance.write("local_gpu", [row])


def several_votes(k: int) -> provenance.Row:
    """What more votes per record cost: their hashes must be independent of more others."""
    ballot = Ballot(num_queries=100, num_classes=50, votes_per_record=k)
    mechanism = Collision(ballot=ballot, epsilon=Fraction(EPSILON))
    votes = random_votes(ballot, MESSAGES // 4)
    answers = mechanism.client(votes, NOISE)
    return provenance.row(
        f"server decodes, {k} votes each",
        size={"messages": len(answers), "cells": ballot.num_cells, "epsilon": EPSILON, "k": k},
        unit="pairs/s",
        ours=len(answers)
        * ballot.num_cells
        / provenance.seconds(lambda: mechanism.server([answers], NOISE, engine=Engine.NUMBA)),
        peers={},
        packages=("numba",),
        answers_per_second=len(votes) / provenance.seconds(lambda: mechanism.client(votes, NOISE)),
        message_bytes=mechanism.message_size,
    )


def ten_million_devices() -> provenance.Row:
    """Every device's real message, packed, received, checked and decoded, in a process of its own for its memory."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.local", "devices"], check=True, capture_output=True, text=True
    )
    measured: dict[str, Any] = json.loads(run.stdout)
    return provenance.row(
        "ten million devices",
        size={"devices": DEVICES, "queries": 10, "classes": 10, "epsilon": EPSILON},
        unit="devices/s",
        ours=DEVICES / (measured["randomize_s"] + measured["decode_s"]),
        peers={},
        **measured,
    )


def devices() -> None:
    mechanism = Collision(ballot=SMALL, epsilon=Fraction(EPSILON))
    votes = random_votes(SMALL, DEVICES)
    begin = time.perf_counter()
    frame = pack(mechanism, mechanism.client(votes, NOISE))
    sent = time.perf_counter()
    inbox = Inbox(mechanism)
    inbox.receive(frame)
    tally = mechanism.server(inbox.answers, NOISE, engine=Engine.NUMPY)
    end = time.perf_counter()
    error = np.abs(tally.estimate - votes.counts()).max() / tally.noise_std
    print(
        json.dumps(
            {
                "randomize_s": sent - begin,
                "decode_s": end - sent,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "largest_error_in_std": float(error),
            }
        )
    )


if __name__ == "__main__":
    {"": main, "devices": devices, "gpu": gpu}["".join(sys.argv[1:])]()
