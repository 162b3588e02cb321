"""Byte-level fuzzing of everything that reads bytes: checkpoints, models, pilots, moments, CSV tables.

``python -m tools.fuzz_bytes --cases 2000 --seed 0`` prints one line per reader: cases, how many were
refused with an error of ours, how many were read, and failures (any other outcome). A damaged file that is
read must give what the whole one gives, where the format can tell. With atheris installed
(``pip install atheris``) and ``--atheris``, the same readers run under its coverage guidance instead.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import io
import json
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
from tests.robust.hostile_files import (
    archive_of,
    checkpoint_bytes,
    model_bytes,
    moments_bytes,
    parts_of,
    pilot_bytes,
)
from tests.support.small import FIXED, table

import fairspan
from fairspan import (
    CheckpointError,
    FairRidge,
    FairspanWarning,
    MomentsFileError,
    NumericalError,
    load_model,
    load_pilot,
)
from fairspan._archives import digest_of
from fairspan.streaming import Checkpoint

__all__ = ["READERS", "Reader", "Tally", "fuzz", "main", "mutate"]

# Bytes that mean something to zip, npy, JSON or CSV.
_WORDS = (
    b"\x00",
    b"\xff",
    b"\n",
    b"\r",
    b'"',
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"PK\x01\x02",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x93NUMPY",
    b"nan",
    b"inf",
    b"-1",
    b"1e400",
    b"null",
    b"\xef\xbb\xbf",
    b"\xf0\x9f",
    b"\x7f\xff\xff\xff",
    b"0" * 40,
)


def mutate(content: bytes, rng: np.random.Generator, most: int = 4) -> bytes:
    """A few of: flip bits, overwrite, insert, drop, repeat or move a stretch, cut."""
    out = bytearray(content)
    for _ in range(int(rng.integers(1, most + 1))):
        n = max(len(out), 1)
        place, length = int(rng.integers(n)), int(min(rng.geometric(0.05), n))
        kind = int(rng.integers(8))
        if kind == 0 and out:
            out[place % len(out)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            out[place : place + length] = rng.bytes(length)
        elif kind == 2:
            out[place:place] = _WORDS[int(rng.integers(len(_WORDS)))]
        elif kind == 3:
            del out[place : place + length]
        elif kind == 4:
            out[place:place] = out[place : place + length] * int(rng.integers(1, 5))
        elif kind == 5:
            source = int(rng.integers(n))
            out[place : place + length] = out[source : source + length]
        elif kind == 6:
            word = _WORDS[int(rng.integers(len(_WORDS)))]
            out[place : place + len(word)] = word
        elif rng.random() < 0.3:
            del out[place:]
    return bytes(out)


@dataclass(frozen=True)
class Reader:
    """What reads bytes, a good example for it, and which errors are ours."""

    good: Callable[[], bytes]
    read: Callable[[Path], None]
    errors: tuple[type[Exception], ...]
    suffix: str = ""
    mutate: Callable[[bytes, np.random.Generator], bytes] = mutate


@dataclass
class Tally:
    """What came of the cases of one reader."""

    cases: int = 0
    refused: int = 0
    read: int = 0
    failures: list[str] = field(default_factory=list)


# --------------------------------------------------------------------------- readers


@functools.cache
def _expected() -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        path.write_bytes(model_bytes())
        return load_model(path).predict(table().X)


def _read_model(path: Path) -> None:
    """Sums of the parts are in the file: what is read is the model that was saved."""
    np.testing.assert_array_equal(load_model(path).predict(table().X), _expected())


def _read_repacked(path: Path) -> None:
    load_model(path)  # whole, with other contents: nothing says what it should be


def _read_checkpoint(path: Path) -> None:
    header, arrays = Checkpoint(path).load() or ({}, {})
    assert header == {"place": 3}
    np.testing.assert_array_equal(arrays["a"], np.arange(2000.0).reshape(40, 50))


@functools.cache
def _pilot_path() -> Path:
    path = Path(tempfile.mkdtemp()) / "pilot.npz"
    path.write_bytes(pilot_bytes())
    return path


def _read_moments(path: Path) -> None:
    """Moments that are taken give a model with finite predictions, and no other file gives one."""
    model = FairRidge.from_moments([path], pilot=_pilot_path())
    assert np.isfinite(model.predict(table().X)).all()


def _read_pilot(path: Path) -> None:
    X, y, s = table()
    model = load_pilot(path)
    model.partial_fit(X, y.astype(float), sensitive_features=s)
    assert np.isfinite(model.predict(X)).all()


def _signed_again(content: bytes, rng: np.random.Generator) -> bytes:
    """A file of an honest digest and other contents, as a site that lies would send it."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name].copy() for name in archive.files}
    header = json.loads(arrays.pop("header.json").tobytes())
    del header["digest"]
    if rng.random() < 0.5:
        text = _other_value(json.dumps(header).encode(), rng)
        header = json.loads(text)
    for name in list(arrays):
        if arrays[name].size and rng.random() < 0.2:
            values = arrays[name].reshape(-1)
            place = int(rng.integers(values.size))
            odd = (np.nan, np.inf, -1.0, 0.0, 1e300, -1e300, 0.5, 2.0**40)
            with np.errstate(invalid="ignore"):
                new = odd[int(rng.integers(len(odd)))]
                values[place] = np.asarray(new).astype(values.dtype)
            if rng.random() < 0.1:
                arrays[name] = values[: rng.integers(values.size + 1)]
    header["digest"] = digest_of({k: v for k, v in header.items() if k not in _UNSIGNED}, arrays)
    text = np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
    out = io.BytesIO()
    np.savez(out, **arrays, **{"header.json": text})
    return out.getvalue()


_UNSIGNED = ("kind", "format")


@functools.cache
def _csv() -> bytes:
    X, y, s = table(40)
    rows = [f"{a:.4g},{b:.4g},{t},{v}" for (a, b, _), t, v in zip(X, "uv" * 20, y, strict=True)]
    return ("a,b,s,y\n" + "\n".join(rows) + f"\n{s[0]},1,u,0\n").encode()


def _read_csv(path: Path) -> None:
    model = FairRidge(**FIXED, n_components=6, random_state=0)
    model.fit_stream(path, target="y", sensitive_features="s")
    assert np.isfinite(model.score_coef_).all()


def _read_command_line(path: Path) -> None:
    from fairspan.tables import read_table

    assert len(read_table(path))


def _in_one_part(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage inside a part of an archive that is whole again: no sum is wrong."""
    parts = parts_of(content)
    names = [name for name in parts if name.endswith(".json") or rng.random() < 0.1]
    name = names[int(rng.integers(len(names)))]
    if name.endswith(".json") and rng.random() < 0.5:
        parts[name] = _other_value(parts[name], rng)
    else:
        parts[name] = mutate(parts[name], rng)
    return archive_of(parts, zipfile.ZIP_STORED)


def _other_value(text: bytes, rng: np.random.Generator) -> bytes:
    """JSON with one of its values exchanged for another of them, or for something odd."""
    tree = json.loads(text)
    places = []
    found = [tree]
    while found:
        node = found.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        places += [(node, key) for key in keys]
        found += [node[key] for key in keys if isinstance(node[key], dict | list)]
    node, key = places[int(rng.integers(len(places)))]
    other, where = places[int(rng.integers(len(places)))]
    odd = [None, True, 0, -1, 2**80, 1e308, "", "__main__", [], {}, "os.system", "../../x"]
    swap = other[where] if rng.random() < 0.6 else odd[int(rng.integers(len(odd)))]
    node[key] = json.loads(json.dumps(swap))
    return json.dumps(tree).encode()


_TABLE_ERRORS = (ValueError, OSError, NumericalError)
READERS = {
    "model": Reader(model_bytes, _read_model, (ValueError,)),
    "model, repacked": Reader(model_bytes, _read_repacked, (ValueError,), mutate=_in_one_part),
    "checkpoint": Reader(checkpoint_bytes, _read_checkpoint, (CheckpointError,)),
    "checkpoint, repacked": Reader(
        checkpoint_bytes,
        _read_checkpoint,
        (CheckpointError,),
        mutate=lambda content, rng: archive_of(
            {name: mutate(part, rng, 1) for name, part in parts_of(content).items()}
        ),
    ),
    "moments": Reader(moments_bytes, _read_moments, (MomentsFileError,)),
    "moments, signed again": Reader(
        moments_bytes, _read_moments, (MomentsFileError, NumericalError), mutate=_signed_again
    ),
    "pilot": Reader(pilot_bytes, _read_pilot, (MomentsFileError,)),
    "pilot, signed again": Reader(
        pilot_bytes, _read_pilot, (MomentsFileError, NumericalError), mutate=_signed_again
    ),
    "CSV, fit_stream": Reader(_csv, _read_csv, _TABLE_ERRORS, ".csv"),
    "CSV, command line": Reader(_csv, _read_command_line, (ValueError,), ".csv"),
}


# --------------------------------------------------------------------------- cases


def attempt(reader: Reader, content: bytes, folder: Path, tally: Tally) -> None:
    """One case; whatever is neither read nor refused in our words is a failure."""
    path = folder / f"case{reader.suffix}"
    path.write_bytes(content)
    tally.cases += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", FairspanWarning)
            warnings.filterwarnings("ignore", category=ResourceWarning)
            warnings.filterwarnings("ignore", message=".*unpickle estimator.*")
            reader.read(path)
    except reader.errors as error:
        if not str(error).strip() or type(error).__name__ == "LinAlgError":
            tally.failures.append(f"{type(error).__name__} without words")
        else:
            tally.refused += 1
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, TypeError) and _is_ours(error):
            tally.refused += 1
        else:
            tally.failures.append(f"{type(error).__name__}: {error}"[:300])
    else:
        tally.read += 1


def _is_ours(error: BaseException) -> bool:
    """Raised by the library itself, and not by what it called."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Path(fairspan.__file__).parent in Path(last.filename).parents


def fuzz(name: str, cases: int, seed: int = 0, keep: Path | None = None) -> Tally:
    """Mutate the good example of a reader so many times; failing cases are kept in a folder."""
    reader, tally = READERS[name], Tally()
    good = reader.good()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        attempt(reader, good, folder, tally)
        assert tally.read == 1, f"{name}: the good example is not read"
        for k in range(cases - 1):
            rng = np.random.default_rng([seed, k, *name.encode()])
            content = reader.mutate(good, rng)
            known = len(tally.failures)
            attempt(reader, content, folder, tally)
            if keep is not None and len(tally.failures) > known:
                (keep / f"{name.replace(', ', '-')}-{k}{reader.suffix}").write_bytes(content)
    return tally


def line(name: str, tally: Tally) -> str:
    """One line of the table."""
    counts = (tally.cases, tally.refused, tally.read, len(tally.failures))
    return f"{name:<22}" + "".join(f"{n:>10}" for n in counts)


# Whose branches guide atheris: all that is installed would take minutes to prepare.
_GUIDED = (
    "fairspan._system",
    "fairspan._archives",
    "fairspan.federated.moments_file",
    "fairspan.federated.pilot_file",
    "fairspan.persistence",
    "fairspan.streaming.checkpoint",
    "fairspan.streaming.arrow",
    "fairspan.tables.files",
    "fairspan.tables.delimited",
    "fairspan.tables.numbers",
    "zipfile",
    "json.decoder",
    "skops.io._audit",
    "skops.io._numpy",
    "skops.io._general",
)


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Functions and methods that a module defines."""
    for one in list(vars(module).values()):
        members = list(vars(one).values()) if isinstance(one, type) else [one]
        for member in members:
            if isinstance(member, FunctionType) and member.__module__ == module.__name__:
                yield member


def guided(name: str, runs: int) -> None:
    """The same under atheris, which ends the process."""
    import atheris

    for module in _GUIDED:
        for one in functions_of(importlib.import_module(module)):
            atheris.instrument_func(one)
    reader, tally = READERS[name], Tally()
    folder = Path(tempfile.mkdtemp())

    def one(content: bytes) -> None:
        attempt(reader, content, folder, tally)
        if tally.failures:
            raise RuntimeError(tally.failures[-1])
        if tally.cases == runs:
            print(line(name, tally), flush=True)

    corpus = Path(tempfile.mkdtemp())
    (corpus / "good").write_bytes(reader.good())
    atheris.Setup([sys.argv[0], f"-runs={runs}", str(corpus)], one)
    atheris.Fuzz()


def main() -> int:
    """Print the table; non-zero if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="per reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=READERS, help="one of them; all if not given")
    parser.add_argument("--keep", type=Path, help="folder for failing cases")
    parser.add_argument("--atheris", action="store_true", help="guided by coverage, if installed")
    given = parser.parse_args()
    names = [given.reader] if given.reader else list(READERS)
    if given.atheris and importlib.util.find_spec("atheris") is not None:
        guided(names[0], given.cases)
        return 0
    if given.atheris:
        print("atheris is not installed; the plain mutator runs instead")
    print(f"{'reader':<22}" + "".join(f"{h:>10}" for h in ("cases", "refused", "read", "failures")))
    failed = []
    for name in names:
        tally = fuzz(name, given.cases, given.seed, given.keep)
        print(line(name, tally), flush=True)
        failed += [f"{name}: {text}" for text in dict.fromkeys(tally.failures)]
    print("\n".join(failed[:20]))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
