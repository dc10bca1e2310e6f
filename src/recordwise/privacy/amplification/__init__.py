"""What shuffling is worth: central privacy of a batch of local messages whose senders nobody can tell apart.

From loose to tight: `closed_form`, `fmt_numerical`, `variation_ratio`. `inverse` turns them round, `amplify` shows
them side by side. All are for replace-one neighbours and count honest senders only.
"""

from recordwise.privacy.amplification.amplify import Amplification, Answer, amplify
from recordwise.privacy.amplification.closed_form import closed_form
from recordwise.privacy.amplification.fmt_numerical import fmt_numerical
from recordwise.privacy.amplification.inverse import (
    largest_epsilon0,
    largest_epsilon0_closed_form,
    largest_epsilon0_fmt,
)
from recordwise.privacy.amplification.variation_ratio import LocalMechanism, Variation, variation_ratio

__all__ = [
    "Amplification",
    "Answer",
    "LocalMechanism",
    "Variation",
    "amplify",
    "closed_form",
    "fmt_numerical",
    "largest_epsilon0",
    "largest_epsilon0_closed_form",
    "largest_epsilon0_fmt",
    "variation_ratio",
]
