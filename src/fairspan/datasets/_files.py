"""Find a data file, check it, and download it where a public source gives the same table.

A file is trusted for its content: what is checked is the sha256 of the text inside the gzip file,
because the same text packed by another version of zlib is another file.
"""

import contextlib
import gzip
import hashlib
import importlib
import importlib.util
import io
import os
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from fairspan.exceptions import DatasetError

__all__ = ["DataFile", "Source", "find", "read", "require"]

ENVIRONMENT = "FAIRSPAN_DATA"
# Three times the longest of the texts.
_LONGEST = 2**24


@dataclass(frozen=True)
class Source:
    """A file at its owner: where it is and what it must be, to the byte."""

    url: str
    sha256: str


@dataclass(frozen=True)
class DataFile:
    """A table as `name.csv.gz`: its sums, and how to make it from public files.

    Attributes
    ----------
    name : str
        Name of the file in any of the folders.
    sha256 : str
        Sum of the reference file, for messages: users can check it without unpacking.
    text_sha256 : str
        Sum of the text inside, which decides.
    sources : tuple of Source
        Public files that `convert` turns into the text; empty if none is known.
    convert : callable or None
        From the sources' bytes, in their order, to the text.
    why_no_source : str
        One sentence for the message, where `sources` is empty.
    """

    name: str
    sha256: str
    text_sha256: str
    sources: tuple[Source, ...] = ()
    convert: Callable[[Sequence[bytes]], bytes] | None = None
    why_no_source: str = ""


def require(module: str, caller: str) -> ModuleType:
    """Import a package of the extra `data`, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'`{caller}` needs `{module}`, which is not installed: pip install "fairspan[data]"'
        ) from error


def find(file: DataFile, data_home: str | os.PathLike[str] | None, caller: str) -> Path:
    """Path of a file: the argument's folder, the environment's, the cache, then a download.

    What is found in the first two belongs to the user and is only read, so `read` refuses a wrong
    one. A wrong file in the cache is fetched again.
    """
    named = [Path(f) for f in (data_home, os.environ.get(ENVIRONMENT)) if f]
    given = [_expanded(folder.expanduser) for folder in named]
    for folder in given:
        if (folder / file.name).exists():
            return folder / file.name
    pooch = require("pooch", caller)
    cache = _expanded(lambda: pooch.os_cache("fairspan"))
    if _is_good(file, cache / file.name):
        return cache / file.name
    home = given[0] if data_home else cache
    looked = [str(folder) for folder in (*given, cache)]
    if not file.sources:
        raise DatasetError(_absent(file, looked, home, f"No download: {file.why_no_source}"))
    try:
        _download(file, home, pooch)
    except (OSError, ValueError) as error:  # pooch: ValueError for a wrong sum
        urls = " and ".join(source.url for source in file.sources)
        cause = f"Making it in {home} from {urls} failed: {error}"
        raise DatasetError(_absent(file, looked, home, cause)) from error
    return home / file.name


def _expanded(folder: Callable[[], str | os.PathLike[str]]) -> Path:
    """With the home folder for ``~``; pooch looks for it too, and not everybody has one."""
    try:
        return Path(folder()).expanduser()
    except RuntimeError as error:
        raise DatasetError(
            f"There is no home folder ({error}). Name the folder that holds the data, or may hold it, by "
            f"`data_home` or the environment variable {ENVIRONMENT}, in full."
        ) from error


def read(file: DataFile, path: Path) -> bytes:
    """The text in a file, if it is the known one to the byte."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    text = _unpacked(packed)
    if text is None or _sha256(text) != file.text_sha256:
        raise DatasetError(
            f"{path} is damaged or another version: its sha256 is {_sha256(packed)}, expected "
            f"{file.sha256}. Replace it, or delete it to have it looked for elsewhere."
        )
    return text


def _is_good(file: DataFile, path: Path) -> bool:
    if not path.exists():
        return False
    try:
        read(file, path)
    except DatasetError:
        if not file.sources:
            raise  # no way to a better one: say what is wrong with it
        return False
    return True


def _download(file: DataFile, folder: Path, pooch: ModuleType) -> None:
    """Make the file from its sources, all of it aside, and move it into place in one step.

    So a file under its name is whole, whoever else fetches it or dies meanwhile.
    """
    assert file.convert is not None
    bar = importlib.util.find_spec("tqdm") is not None  # what pooch draws it with
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _download_into(file, folder, pooch, bar)
    except BaseException:
        if made:  # a mistyped folder is not left behind
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _download_into(file: DataFile, folder: Path, pooch: ModuleType, bar: bool) -> None:
    assert file.convert is not None
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{file.name}.") as aside:
        parts = []
        for source in file.sources:
            name = source.url.rpartition("/")[2]
            known_hash = f"sha256:{source.sha256}"
            part = pooch.retrieve(source.url, known_hash, name, aside, progressbar=bar)
            parts.append(Path(part).read_bytes())
        text = file.convert(parts)
        if _sha256(text) != file.text_sha256:
            raise ValueError(
                f"the table made from it has sha256 {_sha256(text)}, expected {file.text_sha256}"
            )
        finished = Path(aside) / file.name
        finished.write_bytes(gzip.compress(text, mtime=0))
        os.replace(finished, folder / file.name)


def _absent(file: DataFile, looked: Sequence[str], home: Path, cause: str) -> str:
    return (
        f"{file.name} is not in {', '.join(dict.fromkeys(looked))}. {cause.rstrip('.')}. Put the "
        f"file (sha256 {file.sha256}) at {home / file.name}, or name the folder that holds it by "
        f"`data_home` or the environment variable {ENVIRONMENT}."
    )


def _unpacked(packed: bytes) -> bytes | None:
    """The text, or None where it cannot be the known one; a megabyte can hold a gigabyte of zeros."""
    text = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while len(text) <= _LONGEST and (more := file.read(2**20)):
                text += more
    except (OSError, EOFError, zlib.error):  # not gzip, cut short, garbled
        return None
    return bytes(text) if len(text) <= _LONGEST else None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
