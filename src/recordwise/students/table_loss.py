"""The loss of `table`, for PyTorch modules: logits of samples in, the misfit of a released table out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from recordwise.encoders.module import load_torch
from recordwise.labels.likelihood import WHOLE, CellLaw
from recordwise.students.table import MISFIT

if TYPE_CHECKING:
    from torch import Tensor


def table_loss(logits: Tensor, group: Tensor, cells: Tensor, rates: Tensor, sizes: Tensor, law: CellLaw) -> Tensor:
    """The negative log-likelihood of the rows of a table that a batch of samples belongs to, summed.

    A row's class shares are the mean probabilities of the batch's samples in that query, so a batch should hold whole
    queries, or many samples of each.

    Args:
      logits: (n, C) of the batch.
      group: (n,) the query that each sample belongs to.
      cells: (s, C) as released.
      rates: (s,) expected votes, from `turnout`.
      sizes: (s,) pool samples of each query.
      law: `cell_law(release.law)`.
    """
    torch = load_torch()
    present, place = torch.unique(group, return_inverse=True)
    probabilities = logits.softmax(1)
    total = torch.zeros(len(present), logits.shape[1], dtype=probabilities.dtype, device=logits.device)
    count = torch.bincount(place, minlength=len(present)).to(probabilities.dtype)
    shares = (total.index_add(0, place, probabilities) / count[:, None]).clamp_min(1e-9)
    rate = rates[present, None].to(probabilities.dtype)
    expected = rate * shares
    variance = expected * (1 + rate * (1 / sizes[present, None].to(probabilities.dtype).clamp_min(1) + MISFIT)) + WHOLE
    residual = cells[present].to(probabilities.dtype) - expected
    if law.scale is None:
        spread = variance + law.variance
        normal: Tensor = 0.5 * (residual**2 / spread + torch.log(2 * math.pi * spread)).sum()
        return normal
    b, std = law.scale, variance.sqrt()
    above = variance / (2 * b * b) - residual / b + torch.special.log_ndtr(residual / std - std / b)
    below = variance / (2 * b * b) + residual / b + torch.special.log_ndtr(-residual / std - std / b)
    laplace: Tensor = (math.log(2 * b) - torch.logaddexp(above, below)).sum()
    return laplace
