"""Samples as other libraries hold them: polars, pyarrow, Hugging Face's datasets, PyTorch, SciPy.

Each is known by what it offers; nothing is imported that did not come with it, but for pyarrow, by which tables are
read. What a cell is follows from the type that its table declares, never from other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput

MOST_DENSE = 1 << 34  # bytes of a sparse matrix that is written out
CHANNELS, NO_WIDTH = (1, 3, 4), (1, 2, 3, 4)


class Frame:
    """Columns with names: as much of a pandas frame as reading needs."""

    ndim = 2

    def __init__(self, names: Sequence[str], columns: Sequence[NDArray[Any]]) -> None:
        self.columns = list(names)
        self._held = list(columns)

    def __len__(self) -> int:
        return len(self._held[0]) if self._held else 0

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self.columns)

    @property
    def dtypes(self) -> _Types:
        return _Types(self.columns, [column.dtype for column in self._held])

    @property
    def iloc(self) -> _Places:
        return _Places(self)

    def to_numpy(self, dtype: Any = object) -> NDArray[Any]:
        made = np.empty(self.shape, dtype=dtype)
        for place, column in enumerate(self._held):
            made[:, place] = column
        return made


class _Types:
    def __init__(self, names: list[str], types: list[np.dtype[Any]]) -> None:
        self._names, self._types = names, types

    def __iter__(self) -> Iterator[np.dtype[Any]]:
        return iter(self._types)

    def items(self) -> Iterator[tuple[str, np.dtype[Any]]]:
        return zip(self._names, self._types, strict=True)


class _Places:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __getitem__(self, places: Any) -> Any:
        """Rows; or, after a colon, one column or a list of them."""
        names, held = self._frame.columns, self._frame._held
        if not isinstance(places, tuple):
            return Frame(names, [column[places] for column in held])
        _, chosen = places
        if isinstance(chosen, list):
            return Frame([names[place] for place in chosen], [held[place] for place in chosen])
        return _Column(held[chosen])


class _Column:
    def __init__(self, held: NDArray[Any]) -> None:
        self._held, self.dtype = held, held.dtype

    def to_numpy(self, dtype: Any = None) -> NDArray[Any]:
        return self._held if dtype is None else self._held.astype(dtype)


def adopted(samples: Any, name: str = "samples") -> Any:
    """Samples of those libraries as an array, a list or a `Frame`; whatever else as it came."""
    if isinstance(samples, np.ndarray):
        return channels_last(samples)
    if hasattr(samples, "iloc") or isinstance(samples, str | bytes):
        return samples
    if hasattr(samples, "with_format") and isinstance(samples, Mapping):  # Hugging Face's, of several splits
        raise InvalidInput(f"{name} must be one split of a dataset, got {', '.join(map(str, samples))}: name one")
    if hasattr(samples, "with_format") and hasattr(samples, "features"):
        if not hasattr(samples, "__len__"):
            raise InvalidInput(f"{name} must be a dataset of known length, a stream has none")
        samples = samples.with_format("arrow")[:]
    if hasattr(samples, "collect") and hasattr(samples, "lazy"):  # a query of polars that was not asked yet
        samples = samples.collect()
    if hasattr(samples, "column_names") or (hasattr(samples, "__arrow_c_stream__") and hasattr(samples, "columns")):
        return _from_arrow(samples, name)
    if hasattr(samples, "__arrow_c_stream__") or hasattr(samples, "__arrow_c_array__"):
        return adopted_labels(samples)
    if callable(getattr(samples, "detach", None)):
        return channels_last(_from_tensor(samples))
    if callable(getattr(samples, "tocsr", None)):
        return _from_sparse(samples, name)
    if _is_torch_dataset(samples):
        return [_sample_of(item) for item in _items(samples)]
    return samples


def adopted_labels(labels: Any) -> Any:
    """Labels of those libraries as an array; whatever else as it came."""
    if hasattr(labels, "iloc"):
        return labels
    if callable(getattr(labels, "detach", None)):
        return _from_tensor(labels)
    if hasattr(labels, "__arrow_c_stream__") or hasattr(labels, "__arrow_c_array__"):
        from recordwise.data.tables import arrow_column

        pa = _pyarrow()
        held = pa.chunked_array(labels) if hasattr(labels, "__arrow_c_stream__") else pa.array(labels)
        return arrow_column("y", "y", held)
    return labels


def labels_in(samples: Any) -> list[Any] | None:
    """The labels of a PyTorch dataset of pairs; None of anything else."""
    if not _is_torch_dataset(samples):
        return None
    pairs = [item if isinstance(item, tuple | list) and len(item) == 2 else None for item in _items(samples)]
    return [None if pair is None else _plain(pair[1]) for pair in pairs] if any(pairs) else None


def channels_last(pixels: NDArray[Any]) -> NDArray[Any]:
    """Images (n, c, h, w), which only their shape tells from (n, h, w, c), in the latter order."""
    first = pixels.ndim == 4 and pixels.dtype.kind in "biuf" and pixels.shape[1] in CHANNELS
    return np.moveaxis(pixels, 1, 3) if first and pixels.shape[3] not in NO_WIDTH else pixels


def _from_arrow(samples: Any, name: str) -> Any:
    from recordwise.data.tables import arrow_column, stacked
    from recordwise.formats import features_of

    pa = _pyarrow()
    table = samples if isinstance(samples, pa.Table) else pa.table(samples)
    names, features = list(table.column_names), features_of(table)
    if not names:
        raise InvalidInput(f"{name} must have at least one column, it has none")
    columns = [arrow_column(name, one, table.column(one), features.get(one)) for one in names]
    if any(isinstance(column, list) for column in columns):
        return stacked(name, names, columns)
    return Frame(names, columns)


def _from_tensor(tensor: Any) -> NDArray[Any]:
    plain = tensor.detach().cpu()
    held: NDArray[Any] = (plain.float() if str(plain.dtype) in ("torch.bfloat16", "torch.float16") else plain).numpy()
    return held


def _from_sparse(matrix: Any, name: str) -> NDArray[Any]:
    needed = math.prod(matrix.shape) * np.dtype(matrix.dtype).itemsize
    if len(matrix.shape) != 2 or needed > MOST_DENSE:
        raise InvalidInput(
            f"{name} must be a sparse matrix (n, dim) of at most {MOST_DENSE:,} bytes when written out, got "
            f"{matrix.shape}: project its columns first, by what public data fix"
        )
    dense: NDArray[Any] = matrix.tocsr().toarray()
    return dense


def _is_torch_dataset(samples: Any) -> bool:
    return any(kind.__module__.startswith("torch.utils.data") for kind in type(samples).__mro__)


def _items(dataset: Any) -> Iterator[Any]:
    if hasattr(dataset, "batch_sampler"):
        raise InvalidInput("samples must be a PyTorch dataset and not its loader: pass loader.dataset")
    if not hasattr(dataset, "__len__"):
        raise InvalidInput("a PyTorch dataset must have a length, this one has none")
    for place in range(len(dataset)):
        try:
            yield dataset[place]
        except Exception:  # whatever is wrong with it, this one sample is not readable
            yield None


def _sample_of(item: Any) -> Any:
    """A sample, of a pair its first part."""
    return _plain(item[0] if isinstance(item, tuple | list) and len(item) in (1, 2) else item)


def _plain(value: Any) -> Any:
    if not callable(getattr(value, "detach", None)):
        return value
    try:
        held = _from_tensor(value)
    except Exception:  # one that no array holds, such as a sparse one: this one sample is not readable
        return None
    return held if held.ndim else held.item()


def _pyarrow() -> Any:
    return optional("pyarrow", "such a table", extra="parquet")
