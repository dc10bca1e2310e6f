"""The shuffler: takes in sealed messages, forgets who sent them, and lets go of all of them at once, or of none.

It has no key, so it never sees what it shuffles. As a process of its own it reads frames from its standard input and
writes frames to its standard output; a frame is its length (4 bytes, big endian) and its content.

    in:   one frame per sender: 16 bytes that tell the sender from others, then its sealed messages;
          an empty frame, which says that no more will come.
    out:  a frame with the number of senders (8 bytes, big endian); one frame per message, in random order;
          an empty frame. Without it the batch was cut off and counts for nothing.

    python -m recordwise.protocols.shuffle.shuffler --senders 1000 --sealed-size 66
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from recordwise.errors import ProtocolFault, RecordwiseError, whole
from recordwise.formats.framing import LENGTH, framed, length_of
from recordwise.privacy.noise import Noise, SystemNoise, permutation

SENDER_BYTES = 16


@dataclass(frozen=True)
class SealedBatch:
    """What a shuffler released: sealed messages in random order, and how many senders they come from."""

    messages: tuple[bytes, ...]
    senders: int


class Shuffler:
    """Collects until the planned number of senders has arrived, then releases once.

    Guarantees:
      - nothing is released before `senders` different senders were accepted, and nothing twice;
      - what is released is every accepted message, in an order that is uniform among all orders;
      - a sender is accepted once, a sealed message is accepted once; whatever is refused leaves no trace;
      - nothing of the senders' identities is in what is released.
    """

    def __init__(self, *, senders: int, sealed_size: int) -> None:
        whole(senders=senders, sealed_size=sealed_size)
        self.planned, self.sealed_size = senders, sealed_size
        self._senders: set[bytes] = set()
        self._messages: set[bytes] = set()
        self._released = False

    @property
    def arrived(self) -> int:
        return len(self._senders)

    def accept(self, sender: bytes, messages: Iterable[bytes]) -> None:
        """Take in all messages of one sender, or refuse them all."""
        arrivals = list(messages)
        if self._released:
            raise ProtocolFault("a shuffler must be used for one batch, this one was released")
        if len(sender) != SENDER_BYTES:
            raise ProtocolFault(f"a sender must be told by {SENDER_BYTES} bytes, got {len(sender)}")
        if sender in self._senders:
            raise ProtocolFault("a sender must send once, one has sent before")
        wrong = next((message for message in arrivals if len(message) != self.sealed_size), None)
        if wrong is not None:
            raise ProtocolFault(f"a sealed message must have {self.sealed_size} bytes, got {len(wrong)}")
        fresh = set(arrivals)
        if len(fresh) < len(arrivals) or fresh & self._messages:
            raise ProtocolFault("a sealed message must be sent once, one was sent again")
        self._senders.add(sender)
        self._messages |= fresh

    def release(self, noise: Noise) -> SealedBatch:
        """The shuffled batch; refuses while senders are missing."""
        if self._released:
            raise ProtocolFault("a batch must be released once, this one was")
        if self.arrived < self.planned:
            raise ProtocolFault(f"a batch must come from at least {self.planned:,} senders, got {self.arrived:,}")
        self._released = True
        arrivals = list(self._messages)
        batch = SealedBatch(tuple(arrivals[i] for i in permutation(len(arrivals), noise)), self.arrived)
        self._senders.clear()
        self._messages.clear()
        return batch


def write_frame(stream: BinaryIO, content: bytes) -> None:
    stream.write(framed(content))


def read_frames(stream: BinaryIO) -> Iterator[bytes]:
    """Frames up to the empty one; a stream that ends without it is a fault."""
    while True:
        length = length_of(_exactly(stream, LENGTH.size))
        if not length:
            return
        yield _exactly(stream, length)


def write_sender(stream: BinaryIO, sender: bytes, sealed: Iterable[bytes]) -> None:
    """One sender's frame, for a shuffler's input."""
    write_frame(stream, sender + b"".join(sealed))


def read_batch(stream: BinaryIO) -> SealedBatch:
    """The batch on a shuffler's output, whole or not at all."""
    frames = list(read_frames(stream))
    if not frames or len(frames[0]) != 8:
        raise ProtocolFault("a batch must begin with its number of senders, this one does not")
    return SealedBatch(tuple(frames[1:]), int.from_bytes(frames[0], "big"))


def _exactly(stream: BinaryIO, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = stream.read(count - len(content))
        if not part:
            raise ProtocolFault("a stream of frames must end with an empty frame, this one was cut off")
        content += part
    return content


def main() -> int:
    parser = argparse.ArgumentParser(description="Shuffle sealed messages from standard input to standard output.")
    parser.add_argument("--senders", type=int, required=True, help="release nothing before so many senders arrived")
    parser.add_argument("--sealed-size", type=int, required=True, help="bytes of a sealed message")
    given = parser.parse_args()
    try:
        shuffler = Shuffler(senders=given.senders, sealed_size=given.sealed_size)
        for frame in read_frames(sys.stdin.buffer):
            sender, content = frame[:SENDER_BYTES], frame[SENDER_BYTES:]
            try:
                shuffler.accept(sender, _cut(content, given.sealed_size))
            except ProtocolFault as fault:
                print(f"refused a sender: {fault}", file=sys.stderr)  # one bad sender must not stop the others
        batch = shuffler.release(SystemNoise())
        write_frame(sys.stdout.buffer, batch.senders.to_bytes(8, "big"))
        for message in batch.messages:
            write_frame(sys.stdout.buffer, message)
        write_frame(sys.stdout.buffer, b"")
        sys.stdout.buffer.flush()
    except RecordwiseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _cut(content: bytes, size: int) -> list[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]


if __name__ == "__main__":
    sys.exit(main())
