from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from recordwise.errors import InvalidInput
from recordwise.vision.steps import Average, Batches, Compute, MomentumDescent, Recorded, follow, fresh_weights

CPU = Compute(device="cpu")


def test_an_epoch_deals_every_index_at_most_once():
    batches = Batches(torch.arange(100, 117), 5, torch.Generator().manual_seed(0))
    for _ in range(3):
        batches.shuffle()
        dealt = torch.cat([batches.next() for _ in range(len(batches))]).tolist()
        assert len(dealt) == len(set(dealt)) == 15
        assert set(dealt) <= set(range(100, 117))


def test_a_batch_is_never_larger_than_what_there_is():
    batches = Batches(torch.arange(3), 512, torch.Generator().manual_seed(0))
    batches.shuffle()
    assert len(batches) == 1
    assert sorted(batches.next().tolist()) == [0, 1, 2]


@pytest.mark.parametrize("nesterov", [False, True])
def test_descent_moves_as_the_library_does(nesterov: bool):
    torch.manual_seed(0)
    ours = nn.Linear(4, 3)
    theirs = copy.deepcopy(ours)
    descent = MomentumDescent(list(ours.parameters()), momentum=0.9, weight_decay=0.01, nesterov=nesterov)
    oracle = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=nesterov)
    descent.rate.fill_(0.1)
    for _ in range(5):
        x = torch.randn(8, 4)
        descent.update(torch.autograd.grad(ours(x).square().mean(), list(ours.parameters())))
        oracle.zero_grad()
        theirs(x).square().mean().backward()
        oracle.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)


def test_a_follower_keeps_the_stated_share_of_itself():
    leader, follower = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    nn.init.constant_(leader.weight, 3.0)
    leader.running_mean.fill_(10.0)
    follow(leader, follower, 0.75, buffers=False)
    torch.testing.assert_close(follower.weight.detach(), torch.full((2,), 0.75 * 1 + 0.25 * 3))
    assert follower.running_mean.tolist() == [0.0, 0.0]
    follow(leader, follower, torch.tensor(0.5), buffers=True)
    assert follower.running_mean.tolist() == [5.0, 5.0]


def test_an_average_forgets_what_it_began_with_and_then_keeps_the_stated_share():
    learner = nn.Linear(1, 1)
    average = Average(learner, 0.9)
    seen = []
    for step in range(200):
        nn.init.constant_(learner.weight, 5.0 if step < 199 else 7.0)
        average.follow()
        seen.append(average.network.weight.item())
    assert seen[0] == 5.0  # nothing of the first weights, after one step
    assert seen[-1] == pytest.approx(0.9 * 5 + 0.1 * 7, rel=1e-6)


def test_an_average_goes_on_where_it_was_kept():
    learner = nn.Linear(1, 1)
    average, other = Average(learner, 0.9), Average(learner, 0.9)
    for _ in range(5):
        average.follow()
    other.load_state_dict(copy.deepcopy(average.state_dict()))
    nn.init.constant_(learner.weight, 3.0)
    average.follow()
    other.follow()
    assert torch.equal(average.network.weight, other.network.weight)


def test_fresh_weights_depend_on_the_seed_and_leave_no_trace():
    before = torch.random.get_rng_state()
    with fresh_weights(1):
        first = nn.Linear(3, 3).weight
    with fresh_weights(1):
        again = nn.Linear(3, 3).weight
    with fresh_weights(2):
        other = nn.Linear(3, 3).weight
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_images_are_put_channels_first_on_the_device():
    rng = np.random.default_rng(0)
    gray, colour = (rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((3, 5, 4), (3, 5, 4, 2)))
    assert CPU.images(gray).shape == (3, 1, 5, 4)
    assert torch.equal(CPU.images(colour)[1, 0], torch.from_numpy(colour[1, :, :, 0]))
    for wrong in (gray / 255, gray[0]):
        with pytest.raises(InvalidInput, match="images must be bytes"):
            CPU.images(wrong)


def test_a_recorded_step_runs_once_per_call():
    count = torch.zeros(())
    step = Recorded(lambda: count.add_(1) and None, CPU, CPU.generator(0))
    for _ in range(7):
        step()
    assert count == 7


@pytest.mark.parametrize(
    ("device", "line"),
    [
        (
            f"cuda:{torch.cuda.device_count()}",
            r"^device must be one of the \d+ CUDA devices here, or cpu, got 'cuda:\d+'$",
        ),
        ("nowhere", "^device must be one that PyTorch knows, got 'nowhere'$"),
    ],
)
def test_a_device_that_is_not_there_is_refused(device: str, line: str):
    with pytest.raises(InvalidInput, match=line):
        Compute(device=device)


def test_without_cuda_the_plain_name_is_refused_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InvalidInput, match="0 CUDA devices"):
        Compute(device="cuda")
