"""Text models as ONNX files, each with the tokenizer that belongs to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray

from recordwise.encoders.onnx_session import open_session
from recordwise.encoders.sentences import Sentences
from recordwise.errors import InvalidInput, first_line
from recordwise.formats import content_of, text_of
from recordwise.hashing import digest_of

TOKENIZER = "tokenizer.json"  # beside the model's file


def onnx_sentences(
    path: str | Path, *, tokenizer: str | Path | None = None, longest: int = 256, batch_size: int = 64
) -> Sentences:
    """An encoder of texts.

    Args:
      path: The model's file. It takes `input_ids`, and `attention_mask` and `token_type_ids` if it has them.
      tokenizer: The tokenizer's file; None is `tokenizer.json` beside the model.
      longest: How many tokens the model reads.
      batch_size: Texts that are given at a time.
    """
    model = Path(path)
    rules = model.with_name(TOKENIZER) if tokenizer is None else Path(tokenizer)
    return Sentences(OnnxNetwork(content_of(model), text_of(rules), longest, model.name), batch_size=batch_size)


class OnnxNetwork:
    """The first output of an ONNX model; averaged over a text's tokens, at unit length, if it has one for each.

    Args:
      content: The file.
      tokenizer: The tokenizer, in the JSON of the library tokenizers.
      longest: How many tokens it reads.
    """

    def __init__(self, content: bytes, tokenizer: str, longest: int, name: str) -> None:
        tokenizers = optional("tokenizers", "an ONNX file of a text model", extra="onnx")
        self.name, self.longest = name, longest
        self.fingerprint = digest_of(content + tokenizer.encode() + b"%d" % longest)
        self._session = open_session(content)
        self._inputs = [one.name for one in self._session.get_inputs()]
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer)
        except Exception as fault:  # of no particular type
            raise InvalidInput(f"the tokenizer of {name!r} could not be read: {first_line(fault)}") from fault
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        self.filler = int(self._tokenizer.token_to_id("[PAD]") or 0)

    def tokens(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text).ids
        return found

    def vectors(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        known = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        output = np.asarray(self._session.run(None, {name: known[name] for name in self._inputs})[0], np.float32)
        if output.ndim == 3:
            output = (output * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
            output /= np.linalg.norm(output, axis=1, keepdims=True)
        return output.astype(np.float32)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it changes, and it is large
