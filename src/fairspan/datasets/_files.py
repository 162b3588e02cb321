"""Find, check, download and read a data file, and return its table as a `Bunch`.

A file is trusted for its content: the sha256 of the text inside the gzip file is checked, because
another version of zlib compresses the same text to another file.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import importlib
import importlib.util
import io
import os
import tempfile
import textwrap
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from fairspan._system import exact_floats
from fairspan.exceptions import DatasetError

ENVIRONMENT = "FAIRSPAN_DATA"
# Three times the size of the longest text.
_MAX_BYTES = 2**24


class Parts(NamedTuple):
    """Columns of a data set by role, and the rows of train and test for protocol "paper"."""

    data: Any
    target: Any
    sensitive: Any
    split: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A table as `name.csv.gz`: its checksums, how to make it from public files, how to use it."""

    name: str  # name of the file in any of the folders
    # Checksum of the reference file, for messages: users can check it without decompressing.
    sha256: str
    text_sha256: str  # checksum of the text inside, which decides
    # Addresses of public files that `convert` turns into the text, and their checksums; empty if
    # none is known.
    sources: Mapping[str, str] = field(default_factory=dict)
    # From the sources' bytes, in their order, to the text.
    convert: Callable[[Sequence[bytes]], bytes] | None = None
    why_no_source: str = ""  # one sentence for the message, if `sources` is empty
    # Functions from the table to its parts, by the name of the protocol.
    protocols: Mapping[str, Callable[[Any], Parts]] = field(default_factory=dict)
    # For the docstring of the loader: its first line, what the file is made from, the protocols,
    # and `data`, `target` and `sensitive_features` of the result.
    summary: str = ""
    made_from: str = ""
    protocols_doc: str = ""
    contents_doc: str = ""

    @property
    def title(self) -> str:
        """Name of the data set."""
        return self.name.removesuffix(".csv.gz")

    @property
    def loader(self) -> str:
        """Name of the function that loads the data set."""
        return f"fetch_{self.title}"


def require(module: str, caller: str) -> ModuleType:
    """Import a package of the extra `data`; if it is absent, raise with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'`{caller}` needs `{module}`, which is not installed: pip install "fairspan[data]"'
        ) from error


def find(file: DataFile, data_home: str | os.PathLike[str] | None, caller: str) -> Path:
    """Return the path of a file: in `data_home`, in $FAIRSPAN_DATA, in the cache, or downloaded.

    A file in the first two folders belongs to the user and is only read, so `read` raises if it is a
    wrong one. A wrong file in the cache is downloaded again.
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
        urls = " and ".join(file.sources)
        cause = f"Making it in {home} from {urls} failed: {error}"
        raise DatasetError(_absent(file, looked, home, cause)) from error
    return home / file.name


def _expanded(folder: Callable[[], str | os.PathLike[str]]) -> Path:
    """Return the folder with ``~`` expanded; raise if there is no home folder, which pooch needs too."""
    try:
        return Path(folder()).expanduser()
    except RuntimeError as error:
        raise DatasetError(
            f"There is no home folder ({error}). Give the full path of the folder for the data by "
            f"`data_home` or the environment variable {ENVIRONMENT}."
        ) from error


def read(file: DataFile, path: Path) -> bytes:
    """Return the text of a file; raise if its checksum is wrong."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    text = _decompressed(packed)
    if text is None or _sha256(text) != file.text_sha256:
        raise DatasetError(
            f"{path} is damaged or another version: its sha256 is {_sha256(packed)}, expected "
            f"{file.sha256}. Replace it, or delete it to search for it elsewhere."
        )
    return text


def _is_good(file: DataFile, path: Path) -> bool:
    if not path.exists():
        return False
    try:
        read(file, path)
    except DatasetError:
        if not file.sources:
            raise  # it cannot be downloaded again, so report what is wrong with it
        return False
    return True


def _download(file: DataFile, folder: Path, pooch: ModuleType) -> None:
    """Make the file from its sources in a temporary folder, and move it into place in one step.

    So a file under its name is complete, also if two processes download it or one is killed.
    """
    bar = importlib.util.find_spec("tqdm") is not None  # pooch draws the bar with it
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _download_into(file, folder, pooch, bar)
    except BaseException:
        if made:  # do not leave a mistyped folder behind
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _download_into(file: DataFile, folder: Path, pooch: ModuleType, bar: bool) -> None:
    assert file.convert is not None
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{file.name}.") as temporary:
        parts = []
        for url, sha256 in file.sources.items():
            name = url.rpartition("/")[2]
            part = pooch.retrieve(url, f"sha256:{sha256}", name, temporary, progressbar=bar)
            parts.append(Path(part).read_bytes())
        text = file.convert(parts)
        if _sha256(text) != file.text_sha256:
            raise ValueError(
                f"the table made from it has sha256 {_sha256(text)}, expected {file.text_sha256}"
            )
        finished = Path(temporary) / file.name
        finished.write_bytes(gzip.compress(text, mtime=0))
        os.replace(finished, folder / file.name)


def _absent(file: DataFile, looked: Sequence[str], home: Path, cause: str) -> str:
    return (
        f"{file.name} is not in {', '.join(dict.fromkeys(looked))}. {cause.rstrip('.')}. Put the "
        f"file (sha256 {file.sha256}) at {home / file.name}, or name the folder that holds it by "
        f"`data_home` or the environment variable {ENVIRONMENT}."
    )


def _decompressed(packed: bytes) -> bytes | None:
    """Return the text, or None if it is damaged or too long (a small file can hold gigabytes of zeros)."""
    text = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while len(text) <= _MAX_BYTES and (more := file.read(2**20)):
                text += more
    except (OSError, EOFError, zlib.error):  # not gzip, cut short, garbled
        return None
    return bytes(text) if len(text) <= _MAX_BYTES else None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ------------------------------------------------------------------ tables


_DOC = """{file.summary}

{search}

Parameters
----------
data_home : path-like, default=None
    Folder to search first{keep}.
as_frame : bool, default=True
    Return pandas objects; otherwise NumPy arrays.
return_X_y : bool, default=False
    Return only `(data, target)`.
protocol : {{"raw", "paper"}}, default="raw"
{protocols}

Returns
-------
data : sklearn.utils.Bunch
{contents}

Raises
------
DatasetError
{errors}
ImportError
    The extra `data` is not installed.
"""
_MORE_CONTENTS = (
    "`frame` (raw: every column of the file), `feature_names`, `target_names`, `sensitive_names`, "
    '`DESCR` (origin, licence, known problems), `filename`, and for "paper" the row numbers `train` '
    "and `test`."
)
_ERROR = "A subclass of `OSError`; the message names the file and the folder for it."


class Loader(Protocol):
    """A function that loads a data set."""

    def __call__(
        self,
        *,
        data_home: str | os.PathLike[str] | None = None,
        as_frame: bool = True,
        return_X_y: bool = False,
        protocol: str = "raw",
    ) -> Any:
        """Load the data set."""


def make_loader(file: DataFile) -> Loader:
    """Return the public function that loads a data set, with its docstring."""

    def fetch(
        *,
        data_home: str | os.PathLike[str] | None = None,
        as_frame: bool = True,
        return_X_y: bool = False,
        protocol: str = "raw",
    ) -> Any:
        if protocol not in file.protocols:
            raise ValueError(f"`protocol` must be one of {list(file.protocols)}, got {protocol!r}")
        pandas = require("pandas", file.loader)
        path = find(file, data_home, file.loader)
        # Only empty fields are missing: "none" is an industry, "NA" could be a code.
        text = io.BytesIO(read(file, path))
        table = pandas.read_csv(text, keep_default_na=False, na_values=[""], **exact_floats())
        # A copy, so that `frame` does not change when users change `target`.
        parts = file.protocols[protocol](table.copy())
        if protocol == "paper":
            table = pandas.concat([parts.data, parts.sensitive, parts.target], axis="columns")
        rows = {} if parts.split is None else dict(zip(("train", "test"), parts.split, strict=True))
        return make_bunch(
            parts,
            as_frame=as_frame,
            return_X_y=return_X_y,
            DESCR=describe(file.title),
            frame=table if as_frame else None,
            target_names=[parts.target.name],
            sensitive_names=list(parts.sensitive.columns),
            filename=str(path),
            **rows,
        )

    fetch.__name__ = fetch.__qualname__ = file.loader
    fetch.__module__ = "fairspan.datasets"
    fetch.__doc__ = _docstring(file)
    return fetch


def _docstring(file: DataFile) -> str:
    def paragraph(text: str, indent: str = "    ") -> str:
        return textwrap.fill(text, 96, initial_indent=indent, subsequent_indent=indent)

    downloads = bool(file.sources)
    no_download = ". There is no download: no public file is known to be the same."
    search = (
        f"The file `{file.name}` is searched in `data_home`, in the folder named by the environment "
        f"variable `{ENVIRONMENT}` and in the cache"
    )
    search += f"; otherwise it is made {file.made_from}." if downloads else no_download
    problem = "damaged, or absent and cannot be downloaded" if downloads else "absent or damaged"
    return _DOC.format(
        file=file,
        search=paragraph(search, ""),
        keep=", and to keep a download in (default: the cache)" if downloads else "",
        protocols=paragraph(file.protocols_doc),
        contents=paragraph(f"With {file.contents_doc}, {_MORE_CONTENTS}"),
        errors=paragraph(f"The file is {problem}. {_ERROR}"),
    )


def describe(title: str) -> str:
    """Return the text about a data set: origin, licence, protocols, known problems."""
    folder = resources.files("fairspan.datasets") / "descr"
    return (folder / f"{title}.rst").read_text(encoding="utf-8")


def make_bunch(parts: Parts, *, as_frame: bool, return_X_y: bool, **more: Any) -> Any:
    """Return a `Bunch` of the parts, or only data and target; NumPy arrays unless `as_frame`."""
    data, target, sensitive, _ = parts
    names = list(data.columns)
    if not as_frame:
        data, target, sensitive = _array(data), target.to_numpy(), _array(sensitive)
    if return_X_y:
        return data, target
    return Bunch(
        data=data, target=target, sensitive_features=sensitive, feature_names=names, **more
    )


def zscored(frame: Any, *, ddof: int, order: Literal["C", "F"]) -> Any:
    """Return the columns minus their mean, divided by their standard deviation, over all rows.

    `order` is the memory order of the sums. It changes the last digits, and each of the paper's files
    agrees with one of the two.
    """
    values = np.array(frame, dtype=np.float64, order=order)
    values = (values - values.mean(axis=0)) / values.std(axis=0, ddof=ddof)
    return type(frame)(values, columns=frame.columns)


def seeded_split(n_rows: int, n_train: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return train and test rows of a random split, where the paper's own split is unknown."""
    order = np.random.default_rng(0).permutation(n_rows)
    return order[:n_train], order[n_train:]


def as_csv(rows: Iterable[Iterable[str]]) -> bytes:
    """Return rows of fields as a CSV file with line feeds, and quotes only where needed."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _array(frame: Any) -> NDArray[Any]:
    """Return float64 if every column is a number, objects (missing: NaN) otherwise."""
    numeric = len(frame.select_dtypes("number").columns) == frame.shape[1]
    return np.asarray(frame.to_numpy(dtype=np.float64 if numeric else object))
