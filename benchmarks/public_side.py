"""The public side's heavy steps beside their peers: `python -m benchmarks.public_side`.

Histograms of oriented gradients beside scikit-image, which computes the same numbers one image at a time; k-means++ and
Lloyd beside scikit-learn and faiss, on a pool of such histograms. Images are smoothed noise, so no data set is needed.
All on the threads that each takes by itself; inertias are recorded, because a faster clustering may be a worse one.
"""

from __future__ import annotations

import numpy as np
from benchmarks import provenance
from numpy.typing import NDArray

from recordwise.encoders import Hog, Pca
from recordwise.nearest.poll import Metric
from recordwise.queries import kmeans
from recordwise.randomness import seeded

IMAGES, SIDE, PEER_IMAGES = 50_000, 28, 2_000
DIM, CLUSTERS, ITERATIONS = 128, 500, 50


def main() -> None:
    images = smoothed_noise()
    rows = [histograms(images)]
    vectors = Hog().fit(images).transform(images)
    rows.append(clusters(Pca(dim=DIM).fit(vectors).transform(vectors)))
    path = provenance.write("public_side", rows)
    for row in rows:
        beside = ", ".join(f"{ratio:.1f} × {peer}" for peer, ratio in row["ratio"].items())
        print(f"{row['name']:<12} {row['ours']:>12,.1f} {row['unit']:<10} {beside}")
    print(f"written to {path.relative_to(path.parents[2])}")


def smoothed_noise() -> NDArray[np.uint8]:
    noise = seeded(0, "images").normal(size=(IMAGES, SIDE + 6, SIDE + 6)).astype(np.float32).cumsum(1).cumsum(2)
    window = noise[:, 6:, 6:] - noise[:, :-6, 6:] - noise[:, 6:, :-6] + noise[:, :-6, :-6]
    return np.clip(128 + 12 * window, 0, 255).astype(np.uint8)


def histograms(images: NDArray[np.uint8]) -> provenance.Row:
    from skimage.feature import hog

    encoder = Hog(cell=4).fit(images)
    ours = IMAGES / provenance.seconds(lambda: encoder.transform(images))
    few = images[:PEER_IMAGES]
    peer = PEER_IMAGES / provenance.seconds(lambda: [hog(image, 9, (4, 4), (2, 2)) for image in few])
    return provenance.row(
        "hog",
        size={"images": IMAGES, "side": SIDE, "peer_images": PEER_IMAGES},
        ours=ours,
        peers={"scikit-image": peer},
        unit="images/s",
        packages=("scikit-image",),
    )


def clusters(pool: NDArray[np.float32]) -> provenance.Row:
    import faiss
    from sklearn.cluster import KMeans

    found: dict[str, float] = {}

    def ours() -> None:
        centres, owner = kmeans(pool, CLUSTERS, metric=Metric.EUCLIDEAN, seed=0)
        found["ours"] = float(((pool - centres[owner]) ** 2).sum())

    def scikit_learn() -> None:
        found["scikit-learn"] = float(
            KMeans(CLUSTERS, n_init=1, random_state=0, max_iter=ITERATIONS).fit(pool).inertia_
        )

    def faiss_cpu() -> None:
        peer = faiss.Kmeans(DIM, CLUSTERS, niter=ITERATIONS, seed=0, max_points_per_centroid=len(pool))
        peer.cp.init_method = faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS
        peer.train(pool)
        found["faiss-cpu"] = float(peer.obj[-1])

    rates = [len(pool) / provenance.seconds(work, repeats=1) for work in (ours, scikit_learn, faiss_cpu)]
    return provenance.row(
        "k-means",
        size={"samples": len(pool), "dim": DIM, "clusters": CLUSTERS, "iterations at most": ITERATIONS},
        ours=rates[0],
        peers={"scikit-learn": rates[1], "faiss-cpu": rates[2]},
        unit="samples/s",
        packages=("scikit-learn", "faiss-cpu"),
        inertia=found,
    )


if __name__ == "__main__":
    main()
