"""What a protocol releases: noisy counts, or just a class per query; with the law of the noise and the guarantee."""

from recordwise.protocols.release.assigned import Assigned
from recordwise.protocols.release.choices import Choices, Matched
from recordwise.protocols.release.purity import Evidence
from recordwise.protocols.release.release import KINDS, Release, Undecoded, pack, unpack
from recordwise.protocols.release.tally import Tally

__all__ = ["KINDS", "Assigned", "Choices", "Evidence", "Matched", "Release", "Tally", "Undecoded", "pack", "unpack"]
