"""The named data sets: from small files of the published formats and, where RECORDWISE_DATA is set, the real ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from recordwise.data import NAMES, VARIABLE, adult, cifar10, find_data, load, mnist, named, svhn
from recordwise.data.source import Remote
from recordwise.errors import InvalidInput

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
CLASSES = np.array([3, 1, 0, 9, 9, 2], dtype=np.uint8)

if os.environ.get(VARIABLE):

    @pytest.mark.parametrize(
        ("name", "shape", "first"),
        [
            ("mnist", (60_000, 28, 28), [5, 0, 4, 1, 9]),
            pytest.param("cifar10", (50_000, 32, 32, 3), [6, 9, 9, 4, 1], marks=pytest.mark.slow),
            pytest.param("svhn", (73_257, 32, 32, 3), [1, 9, 2, 3, 2], marks=pytest.mark.slow),
            ("adult", (32_561, 14), [0, 0, 0, 0, 0]),
        ],
    )
    def test_the_real_data_sets_have_their_published_content(
        name: str, shape: tuple[int, ...], first: list[int]
    ) -> None:
        data = load(name)  # checks the content against published hashes
        assert data.train.samples.shape == shape
        assert data.train.labels is not None
        assert data.train.labels[:5].tolist() == first
        assert len(data.classes) == len(np.unique(data.train.labels))


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def publish(
    monkeypatch: pytest.MonkeyPatch, name: str, site: Path, files: dict[str, bytes], broken: bool = False
) -> tuple[Remote, ...]:
    """Pretend that small files are the published ones, on a site of our own."""
    site.mkdir(exist_ok=True)
    remotes = []
    for file, content in files.items():
        (site / file).write_bytes(content[:-1] if broken else content)
        missing = (site / "no-such-mirror" / file).as_uri()
        remotes.append(Remote(name=file, urls=(missing, (site / file).as_uri()), md5=md5(content)))
    module = {"mnist": mnist, "cifar10": cifar10, "svhn": svhn, "adult": adult}[name]
    monkeypatch.setattr(module, "REMOTES", tuple(remotes))
    if name == "cifar10":
        monkeypatch.setattr(module, "ARCHIVE", remotes[0])
    published = named._PUBLISHED[name]
    monkeypatch.setitem(named._PUBLISHED, name, named._Published(published.read, published.classes, tuple(remotes)))
    return tuple(remotes)


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(header + array.tobytes(), mtime=0)


def mnist_files() -> dict[str, bytes]:
    gray = IMAGES[:, :28, :28, 0].copy()
    contents = (idx(gray), idx(CLASSES), idx(gray[:2]), idx(CLASSES[:2]))
    return dict(zip([remote.name for remote in mnist.REMOTES], contents, strict=True))


def test_mnist_is_downloaded_from_the_mirror_that_works_checked_and_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    publish(monkeypatch, "mnist", tmp_path / "site", mnist_files())
    data = load("mnist", tmp_path / "home", download=True)
    assert np.array_equal(data.train.samples, IMAGES[:, :28, :28, 0])
    assert data.test.labels is not None
    assert data.test.labels.tolist() == CLASSES[:2].tolist()
    assert len(list((tmp_path / "home" / "mnist").iterdir())) == 4  # no half-written file is left


def test_a_damaged_download_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    publish(monkeypatch, "mnist", tmp_path / "site", mnist_files(), broken=True)
    with pytest.raises(InvalidInput, match=r"could not be downloaded .* must have MD5"):
        load("mnist", tmp_path / "home", download=True)
    assert list((tmp_path / "home" / "mnist").iterdir()) == []


def test_a_damaged_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = mnist_files()
    publish(monkeypatch, "mnist", tmp_path / "mnist", files)
    load("mnist", tmp_path)
    name = next(iter(files))
    (tmp_path / "mnist" / name).write_bytes(files[name] + b" ")
    with pytest.raises(InvalidInput, match=f"{name} must have MD5"):
        load("mnist", tmp_path)
    (tmp_path / "mnist" / name).unlink()
    with pytest.raises(InvalidInput, match=f"incomplete: .*{name} is missing"):
        load("mnist", tmp_path)


def test_a_data_set_is_looked_for_in_the_argument_then_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a" / "mnist").mkdir(parents=True)
    (tmp_path / "b" / "mnist").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a"))
    assert find_data("mnist") == tmp_path / "a" / "mnist"
    assert find_data("mnist", tmp_path / "b") == tmp_path / "b" / "mnist"
    with pytest.raises(InvalidInput, match=r"'svhn' was not found: .* holds no folder svhn"):
        load("svhn")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(InvalidInput, match=f"name the folder that holds mnist/, or set {VARIABLE}"):
        load("mnist")
    with pytest.raises(InvalidInput, match="data set must be one of mnist, cifar10, svhn, adult, got 'imagenet'"):
        load("imagenet")
    assert NAMES == ("mnist", "cifar10", "svhn", "adult")


def python2_pickle(flat: np.ndarray, classes: np.ndarray) -> bytes:
    """The opcodes that Python 2 wrote: byte strings everywhere, and NumPy's module names of that time."""

    def string(content: bytes) -> bytes:
        return b"T" + len(content).to_bytes(4, "little") + content

    def number(value: int) -> bytes:
        return b"J" + value.to_bytes(4, "little", signed=True)

    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + string(b"b") + b"tR"
    dtype = b"cnumpy\ndtype\n(" + string(b"u1") + b"K\x00K\x01tR("
    dtype += b"K\x03" + string(b"|") + b"NNN" + number(-1) + number(-1) + b"K\x00tb"
    shape = b"(" + b"".join(number(size) for size in flat.shape) + b"t"
    array = empty + b"(K\x01" + shape + dtype + b"\x89" + string(flat.tobytes()) + b"tb"
    labels = b"](" + b"".join(number(int(one)) for one in classes) + b"e"
    return b"\x80\x02}(" + string(b"data") + array + string(b"labels") + labels + b"u."


def cifar_archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, part in [("data_batch_1", slice(0, 2)), ("data_batch_2", slice(2, 4)), ("test_batch", slice(4, 6))]:
            flat = IMAGES[part].transpose(0, 3, 1, 2).reshape(-1, 3072)
            content = python2_pickle(flat, CLASSES[part])
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def test_cifar10_is_read_from_the_published_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    publish(monkeypatch, "cifar10", tmp_path / "site", {"cifar-10-python.tar.gz": cifar_archive()})
    data = load("cifar10", tmp_path / "home", download=True)
    assert np.array_equal(data.train.samples, IMAGES[:4])
    assert np.array_equal(data.test.samples, IMAGES[4:])
    assert data.train.labels is not None
    assert data.train.labels.tolist() == CLASSES[:4].tolist()


def test_a_pickle_that_would_run_code_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"must hold arrays only, this one names posix.system"):
        cifar10._Batch(io.BytesIO(b"cposix\nsystem\n(S'true'\ntR.")).load()


def strip(path: Path, images: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(images.reshape(-1, images.shape[2], 3)).save(path, lossless=True)


def sha256(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def test_cifar10_is_read_from_strips_and_a_damaged_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "cifar10"
    hashes = {}
    for part, rows in (("train", slice(0, 4)), ("test", slice(4, 6))):
        images, classes = IMAGES[rows], CLASSES[rows]
        strip(home / f"{part}-000.webp", images[:2])
        if part == "train":
            strip(home / f"{part}-001.webp", images[2:])
        classes.tofile(home / f"{part}-labels.bin")
        hashes[part] = (sha256(images), sha256(classes))
    monkeypatch.setattr(cifar10, "_SHA256", hashes)
    data = load("cifar10", tmp_path)
    assert np.array_equal(data.train.samples, IMAGES[:4])
    strip(home / "test-000.webp", IMAGES[:2])
    with pytest.raises(InvalidInput, match="CIFAR-10 test images must have SHA-256"):
        load("cifar10", tmp_path)
    strip(home / "test-000.webp", IMAGES[:1, :, :31])
    with pytest.raises(InvalidInput, match="must be a strip of 32 pixel squares"):
        load("cifar10", tmp_path)


def test_svhn_mat_files_write_zero_as_ten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {}
    for name in ("train_32x32.mat", "test_32x32.mat"):
        packed = io.BytesIO()
        digits = np.where(CLASSES == 0, 10, CLASSES)[:, None]
        savemat(packed, {"X": IMAGES.transpose(1, 2, 3, 0), "y": digits})
        files[name] = packed.getvalue()
    publish(monkeypatch, "svhn", tmp_path / "svhn", files)
    data = load("svhn", tmp_path)
    assert np.array_equal(data.train.samples, IMAGES)
    assert data.train.labels is not None
    assert data.train.labels.tolist() == CLASSES.tolist()


def test_svhn_strips_put_every_size_back_in_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = RNG.integers(0, 256, (2, 11, 11, 3), dtype=np.uint8)
    sides = np.array([32, 11, 32, 11], dtype=np.uint8)
    expected = np.stack([IMAGES[0], svhn.enlarge(small[:1])[0], IMAGES[1], svhn.enlarge(small[1:])[0]])
    hashes = {}
    for part in ("train", "test"):
        strip(tmp_path / "svhn" / part / "s32-000.webp", IMAGES[:2])
        strip(tmp_path / "svhn" / part / "s11-000.webp", small)
        sides.tofile(tmp_path / "svhn" / f"{part}-sizes.bin")
        CLASSES[:4].tofile(tmp_path / "svhn" / f"{part}-labels.bin")
        hashes[part] = (sha256(expected), sha256(CLASSES[:4]))
    monkeypatch.setattr(svhn, "_SHA256", hashes)
    assert np.array_equal(load("svhn", tmp_path).test.samples, expected)


@pytest.mark.parametrize("side", [2, 11, 20, 31])
def test_enlarging_agrees_with_the_kernel_pixel_by_pixel(side: int) -> None:
    """Keys' kernel, summed over mirrored pixels one at a time, in both directions."""

    def kernel(x: float) -> float:
        x = abs(x)
        return 1.5 * x**3 - 2.5 * x**2 + 1 if x <= 1 else -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0

    def line(pixels: np.ndarray) -> list[float]:
        mirrored = np.concatenate([pixels[1::-1], pixels, pixels[:-3:-1]])  # index 0 is pixel -2
        at = [(i + 0.5) * side / 32 - 0.5 for i in range(32)]
        sums = [sum(kernel(x - j) * mirrored[j + 2] for j in range(-2, side + 2)) for x in at]
        return [min(255.0, max(0.0, float(np.floor(total + 0.5)))) for total in sums]

    image = RNG.integers(0, 256, (1, side, side, 3), dtype=np.uint8)
    red = image[0, :, :, 0].astype(float)
    tall = np.array([line(red[:, column]) for column in range(side)]).T
    both = np.array([line(row) for row in tall])
    assert np.array_equal(svhn.enlarge(image)[0, :, :, 0], both)


ADULT = (
    b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, "
)


@pytest.mark.parametrize("packed", [False, True])
def test_adult_is_read_plain_or_packed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packed: bool) -> None:
    files = {"adult.data": ADULT + b"<=50K\n\n", "adult.test": b"|1x3 Cross validator\n" + ADULT + b">50K.\n\n"}
    publish(monkeypatch, "adult", tmp_path / "adult", files)
    if packed:
        for name, content in files.items():
            (tmp_path / "adult" / name).unlink()
            (tmp_path / "adult" / f"{name}.xz").write_bytes(lzma.compress(content))
    data = load("adult", tmp_path)
    assert data.train.samples[0].tolist()[:4] == [39.0, "State-gov", 77516.0, "Bachelors"]
    assert data.train.columns[13] == "native-country"
    assert data.train.labels is not None
    assert data.test.labels is not None
    assert [data.train.labels.tolist(), data.test.labels.tolist()] == [[0], [1]]
