"""MixMatch (Berthelot et al. 2019): a student from few labelled images and many unlabelled ones.

The labelled images are those whose released label is most sure, the unlabelled ones the rest of the pool. Labels for
the latter are the network's own mean answer over several views, sharpened; then everything is mixed with everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recordwise.extras.torch import torch

from torch import Tensor, nn

from recordwise.errors import InvalidInput, positive, probability, whole
from recordwise.vision.augment import Augment
from recordwise.vision.layout import laid_out
from recordwise.vision.schedules import cosine
from recordwise.vision.steps import Average, Batches, Recorded
from recordwise.vision.training import (
    MomentumSettings,
    Training,
    TrainingRun,
    check_flags,
    check_images,
    check_rows,
)


@dataclass(frozen=True, kw_only=True)
class MixMatch(MomentumSettings):
    """Settings of MixMatch.

    Attributes:
      epochs: Each goes through the labelled or the unlabelled images once, whichever are more.
      keep: The share of itself that the average keeps at every step.
      views: Views of an unlabelled image whose answers are averaged.
      temperature: Below one sharpens those answers.
      mixing: The parameter of the Beta distribution that mixing weights are drawn from.
      unlabelled_weight: Of the unlabelled loss. The authors' weight is for a million steps: in a short run it teaches a
        network that knows nothing yet to say the same of everything.
      ramp: The share of the run over which that weight grows from zero.
    """

    batch: int = 64
    rate: float = 0.03
    keep: float = 0.999
    views: int = 2
    temperature: float = 0.5
    mixing: float = 0.75
    unlabelled_weight: float = 75.0
    ramp: float = 1.0
    view: Augment = field(default=Augment(shift=0.125))

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(views=self.views)
        positive(temperature=self.temperature, mixing=self.mixing, ramp=self.ramp)
        probability(keep=self.keep)


def mixmatch(
    network: nn.Module,
    images: Tensor,
    targets: Tensor,
    labelled: Tensor,
    settings: MixMatch,
    *,
    run: TrainingRun,
) -> nn.Module:
    """The network's averaged twin after the last epoch, in evaluation mode.

    Args:
      images: (n, channels, height, width) uint8 on `run.compute.device`.
      targets: (n, C) probabilities; only those of labelled images are looked at.
      labelled: (n,) which images' labels are to be learnt.
    """
    compute = run.compute
    check_images(images)
    check_rows(images, dims=2, targets=targets)
    check_flags(images, labelled=labelled)
    known, unknown = labelled.nonzero().flatten(), (~labelled).nonzero().flatten()
    if not len(known) or not len(unknown):
        raise InvalidInput(f"MixMatch needs labelled and unlabelled images, got {len(known)} and {len(unknown)}")
    learner = compute.ready(network).train()
    average = Average(learner, settings.keep)
    forward, generator = compute.fused(learner), compute.generator(run.seed)
    parameters = list(learner.parameters())
    descent = settings.descent(parameters)
    with_label = Batches(known, settings.batch, generator)
    without = Batches(unknown, min(settings.batch, len(unknown)), generator)
    balance, total = (torch.zeros((), device=images.device) for _ in range(2))

    def step() -> None:
        taught, untaught = with_label.next(), without.next()
        views = [settings.view(images[untaught], generator) for _ in range(settings.views)]
        with torch.no_grad(), compute.mixed():
            guesses = torch.stack([forward(view).float().softmax(1) for view in views]).mean(0)
        guesses = sharpen(guesses, settings.temperature)
        inputs = torch.cat([settings.view(images[taught], generator), *views])
        wanted = torch.cat([targets[taught], *([guesses] * settings.views)])
        weight = _beta(settings.mixing, len(inputs), inputs.device, generator)
        weight = torch.maximum(weight, 1 - weight)[:, None]  # a mixture stays closer to its own image
        partner = torch.rand(len(inputs), generator=generator, device=inputs.device).argsort()
        mixed = weight[..., None, None] * inputs + (1 - weight[..., None, None]) * inputs[partner]
        goal = weight * wanted + (1 - weight) * wanted[partner]
        with compute.mixed():
            logits = forward(laid_out(mixed))
        answer = logits.float().log_softmax(1)
        own = len(taught)
        supervised = -(goal[:own] * answer[:own]).sum(1).mean()
        consistent = (answer[own:].exp() - goal[own:]).square().mean()
        loss = supervised + balance * consistent
        descent.update(torch.autograd.grad(loss, parameters))
        average.follow()
        total.add_(loss.detach())

    recorded, steps = Recorded(step, compute, generator), max(len(with_label), len(without))

    def one_epoch(epoch: int) -> float:
        total.zero_()
        for batch in range(steps):
            for batches in (without, with_label):
                if batch % len(batches) == 0:
                    batches.shuffle()
            done = (epoch + batch / steps) / settings.epochs
            descent.rate.fill_(settings.rate * cosine(done))
            balance.fill_(settings.unlabelled_weight * min(1.0, done / settings.ramp))
            recorded()
        return float(total) / steps

    training = Training(
        one_epoch,
        {"learner": learner, "average": average, "descent": descent, "generator": generator},
        settings=settings,
        run=run,
        inputs={"network": network, "images": images, "targets": targets, "labelled": labelled},
    )
    training.finish(settings.epochs)
    return average.network.eval()


def sharpen(answers: Tensor, temperature: float) -> Tensor:
    """Raise probabilities to the power 1/temperature and normalise."""
    powered = answers ** (1 / temperature)
    return powered / powered.sum(1, keepdim=True)


def _beta(parameter: float, count: int, device: torch.device, generator: torch.Generator) -> Tensor:
    """Draws of Beta(a, a) from uniform ones, by Jöhnk's rejection run a fixed number of times.

    PyTorch's own sampler takes no generator. The first accepted of 16 tries counts; if none is (below one in a million
    for a = 0.75), the weight is one and the image is left alone.
    """
    powers = torch.rand((2, 16, count), generator=generator, device=device) ** (1 / parameter)
    accepted = powers.sum(0) <= 1
    first = accepted.int().argmax(0, keepdim=True)
    chosen = powers.gather(1, first[None].expand(2, -1, -1))[:, 0]
    return torch.where(accepted.any(0), chosen[0] / chosen.sum(0).clamp(min=1e-30), 1.0)
