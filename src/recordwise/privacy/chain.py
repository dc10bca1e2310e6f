"""A chain of entries: every link's hash covers its entry and, through the link before it, all earlier ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Head:
    """The end of a chain: how many entries it has, and a hash of all of them in their order.

    Whoever noted a head elsewhere can tell later whether the chain still holds the same entries up to there.
    """

    count: int = 0
    digest: str = "0" * 64

    def __str__(self) -> str:
        return f"{self.digest} ({self.count:,} {'entry' if self.count == 1 else 'entries'})"

    def then(self, *parts: str) -> Head:
        """The head after one more entry, which is a sequence of texts."""
        count = self.count + 1
        sha = hashlib.sha256(f"{count}:{self.digest}:{len(parts)};".encode())
        for part in parts:  # with its length, so that no two sequences are written alike
            content = part.encode("utf-8", "surrogatepass")
            sha.update(f"{len(content)}:".encode() + content)
        return Head(count, sha.hexdigest())
