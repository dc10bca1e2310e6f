"""One suite for every way to train a network: killed, a run goes on as if nothing had been; and draws stay in order."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recordwise.errors import ChangedInput, InvalidInput
from recordwise.vision import training
from recordwise.vision.augment import Augment
from recordwise.vision.dti import Dti, Transform, cluster_by_transformation
from recordwise.vision.mixmatch import MixMatch, mixmatch
from recordwise.vision.resnet import ResNet
from recordwise.vision.scan import Scan, scan
from recordwise.vision.self_label import SelfLabel, self_label
from recordwise.vision.self_supervised import Byol, pretrain
from recordwise.vision.simclr import SimClr, simclr
from recordwise.vision.steps import Compute, fresh_weights
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import Settings, Training, TrainingRun

CPU = Compute(device="cpu")
COUNT = 48
IMAGES = torch.randint(0, 256, (COUNT, 1, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(COUNT) % 3
TARGETS = torch.eye(3)[LABELS]
WEIGHTS = torch.rand(COUNT, generator=torch.Generator().manual_seed(3))
NEAR = torch.stack([torch.arange(COUNT).roll(shift) for shift in (3, 6)], dim=1)
VIEW = Augment(size=10, crop=(0.5, 1.0), rotate=10, brightness=0.3, jitter=0.5)
STILL = Augment(shift=0.1, cutout=3)


def backbone() -> ResNet:
    with fresh_weights(5):
        return ResNet(mean=[0.5], deviation=[0.3], width=2)


def classifier() -> nn.Module:
    with fresh_weights(5):
        return nn.Sequential(ResNet(mean=[0.5], deviation=[0.3], width=2), nn.Linear(16, 3))


@dataclass(frozen=True, eq=False)
class Learner:
    """How to call it, and what comes out.

    Attributes:
      values: What it reported, epoch by epoch.
      last: Its last weights, their sizes added up.
    """

    call: Callable[..., nn.Module]
    settings: Settings
    values: tuple[float, ...]
    last: float

    def __call__(self, *, images: Tensor = IMAGES, seed: int = 1, **given: Any) -> nn.Module:
        settings = given.pop("settings", self.settings)
        return self.call(images, settings, run=TrainingRun(seed=seed, **given))


LEARNERS = {
    "BYOL": Learner(
        pretrain,
        Byol(epochs=2, prototype_epochs=2, batch=16, width=2, hidden=16, projection=8, prototypes=3, warm_up_epochs=1,
             view=VIEW),
        (0.88896, 0.51202, 0.68385, 0.67419),
        0.01729,
    ),
    "SimCLR": Learner(
        simclr,
        SimClr(epochs=3, batch=16, width=2, hidden=16, projection=8, warm_up=0.2, view=VIEW),
        (3.53315, 3.40651, 3.43003),
        0.44276,
    ),
    "SCAN": Learner(
        lambda images, settings, **given: scan(backbone(), 16, images, NEAR, settings, **given),
        Scan(clusters=3, heads=2, epochs=3, batch=16, rate=1e-2, view=STILL),
        (-4.35110, -4.37377, -4.39214),
        0.34001,
    ),
    "self-labelling": Learner(
        lambda images, settings, **given: self_label(
            backbone(), 16, images, LABELS, torch.arange(COUNT) < 32, settings, classes=3, **given
        ),
        SelfLabel(epochs=4, trusting_epochs=2, batch=16, sure=0.35, keep=0.9, alignment=0.9, strong=STILL,
                  weak=Augment(shift=0.1)),
        (1.0, 1.0, 0.60417, 0.77083),
        0.33986,
    ),
    "DTI": Learner(
        cluster_by_transformation,
        Dti(prototypes=3, epochs=4, batch=16, width=2, rate=1e-2, slow_from=3, least_share=0.9,
            curriculum=((Transform.AFFINE, 1), (Transform.THIN_PLATE, 2))),
        (0.137257, 0.124714, 0.097871, 0.091704),
        2.48590,
    ),
    "supervised": Learner(
        lambda images, settings, **given: train(classifier(), images, TARGETS, WEIGHTS, settings, **given),
        Supervised(epochs=3, batch=16, keep=0.9, view=STILL),
        (1.18601, 1.15325, 1.18898),
        0.32074,
    ),
    "MixMatch": Learner(
        lambda images, settings, **given: mixmatch(
            classifier(), images, TARGETS, torch.arange(COUNT) < 12, settings, **given
        ),
        MixMatch(epochs=3, batch=8, keep=0.9, ramp=0.3, view=STILL),
        (1.67490, 2.48155, 3.32618),
        0.85402,
    ),
}  # fmt: skip


@pytest.fixture(params=LEARNERS.values(), ids=LEARNERS.keys())
def learner(request: pytest.FixtureRequest) -> Learner:
    found: Learner = request.param
    return found


@cache
def whole(learner: Learner) -> tuple[nn.Module, list[float]]:
    """A run that nobody killed, and what it reported."""
    values: list[float] = []
    return learner(progress=lambda epoch, value: values.append(value)), values


class Killed(Exception):
    pass


def kill_after(epochs: int) -> Callable[[int, float], None]:
    def progress(epoch: int, value: float) -> None:
        if epoch == epochs:
            raise Killed

    return progress


def same(one: nn.Module, other: nn.Module) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_a_run_draws_what_it_always_drew(learner: Learner):
    # Rounding grows with the epochs and varies with the number of threads: the last values differ by up to 1.5 %.
    def as_before(network: nn.Module, values: list[float]) -> bool:
        last = float(list(network.parameters())[-1].detach().abs().sum())
        return (
            values[0] == pytest.approx(learner.values[0], rel=1e-3)
            and values == pytest.approx(learner.values, rel=0.03)
            and last == pytest.approx(learner.last, rel=0.03)
        )

    assert as_before(*whole(learner))
    others: list[float] = []
    assert not as_before(learner(seed=2, progress=lambda epoch, value: others.append(value)), others)


def test_a_killed_run_ends_as_one_that_was_not(learner: Learner, tmp_path: Path):
    path, last = tmp_path / "run.pt", len(learner.values) - 1
    for epoch in (1, last):
        with pytest.raises(Killed):
            learner(checkpoint=path, checkpoint_every=1, progress=kill_after(epoch))
    reported: list[int] = []
    resumed = learner(checkpoint=path, checkpoint_every=1, progress=lambda epoch, value: reported.append(epoch))
    assert reported == [last]
    assert same(resumed, whole(learner)[0])


def test_a_run_that_forgot_any_part_would_be_seen(learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "run.pt"
    with pytest.raises(Killed):
        learner(checkpoint=path, checkpoint_every=1, progress=kill_after(len(learner.values) - 1))
    killed, parts = path.read_bytes(), list(torch.load(path, weights_only=True)["state"])
    restore = training._restore

    def forgetting(forgotten: str) -> Callable[[Any, Any], None]:
        turn = iter(parts)
        return lambda holder, kept: None if next(turn) == forgotten else restore(holder, kept)

    for forgotten in set(parts) - {"losses"}:  # SCAN's count only once the last epoch is over
        path.write_bytes(killed)
        monkeypatch.setattr(training, "_restore", forgetting(forgotten))
        assert not same(learner(checkpoint=path), whole(learner)[0]), forgotten


def test_a_finished_run_is_read_and_not_repeated(learner: Learner, tmp_path: Path):
    first = learner(checkpoint=tmp_path / "new" / "run.pt", checkpoint_every=100)
    again = learner(checkpoint=tmp_path / "new" / "run.pt", progress=lambda epoch, value: pytest.fail("trained again"))
    assert same(first, again)
    assert getattr(first, "ways", None) == getattr(again, "ways", None)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.pt"]


def test_another_runs_checkpoint_is_refused_by_name(learner: Learner, tmp_path: Path):
    path = tmp_path / "run.pt"
    with pytest.raises(Killed):
        learner(checkpoint=path, checkpoint_every=1, progress=kill_after(1))
    with pytest.raises(ChangedInput, match=r"^seed was 1 when run\.pt was written and is 2 now"):
        learner(checkpoint=path, seed=2)
    longer = replace(learner.settings, epochs=9)
    with pytest.raises(ChangedInput, match=rf"^epochs was {learner.settings.epochs} when .* and is 9 now"):
        learner(checkpoint=path, settings=longer)
    with pytest.raises(ChangedInput, match=r"^SHA-256 of images was "):
        learner(checkpoint=path, images=IMAGES.flip(0))


def test_labels_and_first_weights_are_part_of_a_run(tmp_path: Path):
    settings = LEARNERS["supervised"].settings
    assert isinstance(settings, Supervised)

    def teach(network: nn.Module, targets: Tensor) -> None:
        path = tmp_path / "run.pt"
        train(network, IMAGES, targets, WEIGHTS, settings, run=TrainingRun(seed=1, checkpoint=path))

    teach(classifier(), TARGETS)
    teach(classifier(), TARGETS)
    with pytest.raises(ChangedInput, match="targets"):
        teach(classifier(), 1 - TARGETS)
    other = classifier()
    nn.init.zeros_(other[1].bias)  # type: ignore[index]
    with pytest.raises(ChangedInput, match="network"):
        teach(other, TARGETS)


def test_another_methods_checkpoint_is_refused(tmp_path: Path):
    LEARNERS["SimCLR"](checkpoint=tmp_path / "run.pt")
    with pytest.raises(ChangedInput, match=r"^method was SimClr when run\.pt was written and is Dti now"):
        LEARNERS["DTI"](checkpoint=tmp_path / "run.pt")


def test_a_setting_of_a_view_is_named(tmp_path: Path):
    learner = LEARNERS["SimCLR"]
    learner(checkpoint=tmp_path / "run.pt")
    other = replace(learner.settings, view=replace(VIEW, rotate=20))
    with pytest.raises(ChangedInput, match=r"^view\.rotate was 10 when run\.pt was written and is 20 now"):
        learner(checkpoint=tmp_path / "run.pt", settings=other)


def counting(count: Tensor, **run: Any) -> Training:
    def one_epoch(epoch: int) -> float:
        count.add_(1)
        return float(count)

    return Training(
        one_epoch,
        {"count": count},
        settings=Settings(epochs=5, batch=1, rate=1.0),
        run=TrainingRun(**run),
        inputs={},
    )


def test_a_checkpoint_is_kept_every_few_epochs_and_after_the_last(tmp_path: Path):
    path, kept = tmp_path / "run.pt", []

    def look(epoch: int, value: float) -> None:
        kept.append(torch.load(path, weights_only=True)["epoch"] if path.exists() else 0)

    counting(torch.zeros(()), checkpoint=path, checkpoint_every=2, progress=look).finish(5)
    assert kept == [0, 0, 2, 2, 4]
    assert torch.load(path, weights_only=True)["epoch"] == 5
    with pytest.raises(InvalidInput, match="checkpoint_every"):
        TrainingRun(checkpoint_every=0)


def test_a_write_that_fails_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "run.pt"
    run = counting(torch.zeros(()))
    run.run_epoch()
    run.save(path)

    def full(content: object, file: io.BytesIO) -> None:
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", full)
    run.run_epoch()
    with pytest.raises(OSError, match="space"):
        run.save(path)
    again = counting(torch.zeros(()))
    again.resume(path)
    assert again.epoch == 1


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 nor an archive"])
def test_what_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path):
    path = tmp_path / "run.pt"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"checkpoint must be what a training run wrote, run\.pt is not"):
        counting(torch.zeros(())).resume(path)
    torch.save({"weights": torch.ones(2)}, path)
    with pytest.raises(InvalidInput, match="must be what a training run wrote"):
        counting(torch.zeros(())).resume(path)


def test_a_checkpoint_cannot_carry_code(tmp_path: Path):
    path = tmp_path / "run.pt"
    torch.save({"facts": {}, "epoch": 1, "state": {"count": Path("anything")}}, path)
    with pytest.raises(InvalidInput, match="must be what a training run wrote"):
        counting(torch.zeros(())).resume(path)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch": 2.5}, {"rate": float("nan")}])
def test_settings_are_checked_whatever_the_method(learner: Learner, wrong: dict[str, Any]):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        replace(learner.settings, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [IMAGES / 255, IMAGES[0], IMAGES[:0], IMAGES.numpy(), "images"],
    ids=["float", "one", "none", "array", "text"],
)
def test_what_is_no_pool_of_images_is_refused(learner: Learner, wrong: Any):
    with pytest.raises(
        InvalidInput, match=r"^images must be a uint8 tensor \(n, channels, height, width\), n >= 1, got "
    ):
        learner(images=wrong)


def test_more_groups_than_images_are_refused_before_the_first_epoch():
    for name in ("BYOL", "DTI"):
        with pytest.raises(InvalidInput, match=r"^prototypes must lie in \[1, 2\], the number of images, got 3"):
            LEARNERS[name](images=IMAGES[:2], progress=lambda epoch, value: pytest.fail("trained"))


def test_prototypes_are_square():
    with pytest.raises(InvalidInput, match=r"^images must be square, got shape \(48, 1, 12, 9\)"):
        LEARNERS["DTI"](images=IMAGES[..., :9])


def test_a_checkpoint_may_be_named_by_text(learner: Learner, tmp_path: Path):
    first = learner(checkpoint=str(tmp_path / "run.pt"))
    assert same(first, learner(checkpoint=tmp_path / "run.pt", progress=lambda epoch, value: pytest.fail("again")))


@pytest.mark.parametrize(
    "content",
    [
        torch.ones(2),
        [1, 2],
        {"facts": [1], "epoch": 1, "state": {}},
        {"facts": "seed", "epoch": 1, "state": {}},
        {"facts": {}, "epoch": "one", "state": {}},
        {"facts": {}, "epoch": 1, "state": [1]},
    ],
    ids=str,
)
def test_a_checkpoint_of_another_make_is_refused(content: Any, tmp_path: Path):
    torch.save(content, tmp_path / "run.pt")
    with pytest.raises(InvalidInput, match=r"^checkpoint must be what a training run wrote, run\.pt is not$"):
        counting(torch.zeros(())).resume(tmp_path / "run.pt")


def test_a_folder_is_no_checkpoint(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"^checkpoint must be what a training run wrote, .* is not$"):
        counting(torch.zeros(()), checkpoint=tmp_path).finish(1)
