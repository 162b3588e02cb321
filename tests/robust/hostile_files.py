"""Files that mean harm, or are what is left of good ones: makers, and the readers they are given to.

``python -m tests.robust.hostile_files`` prints which are refused.
"""

import bz2
import functools
import gzip
import io
import json
import lzma
import pickle
import struct
import sys
import tempfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import numpy as np

from fairspan import CheckpointError, DatasetError, FairRidge, load_model, save_model
from fairspan.datasets import _files as data_files
from fairspan.streaming import Checkpoint
from tests.support.small import FIXED, table

SENTINEL = "code-was-run"
NAMED = {"target": "y", "sensitive_features": "s"}


@dataclass(frozen=True)
class Hostile:
    """A file by what is wrong with it, what it is given to, and how it is made in a folder."""

    name: str
    reader: str
    make: Callable[[Path], Path]


class WritesAFile:
    """Unpickled, it leaves a file: what any code could do."""

    def __init__(self, sentinel):
        self.sentinel = str(sentinel)

    def __reduce__(self):
        return open, (self.sentinel, "w")


# --------------------------------------------------------------------------- readers


def read_stream(path):
    FairRidge(**FIXED, n_components=10).fit_stream(path, **NAMED)


def read_command_line(path):
    from fairspan.tables.files import open_table

    open_table(path).read()


def read_data_file(path):
    file = data_files.DataFile(name=path.name, sha256="0" * 64, text_sha256="0" * 64)
    data_files.read(file, path)


READERS = {
    "model": (load_model, ValueError),
    "checkpoint": (lambda path: Checkpoint(path).load(), CheckpointError),
    "stream": (read_stream, (ValueError, OSError)),
    "command line": (read_command_line, ValueError),
    "data set": (read_data_file, DatasetError),
}


def refusal(one: Hostile, path: Path) -> str | None:
    """The message it is refused with; None if it is read. Any other error is the caller's."""
    read, allowed = READERS[one.reader]
    try:
        read(path)
    except allowed as error:
        return str(error)
    return None


# --------------------------------------------------------------------------- good files


@functools.cache
def model_bytes() -> bytes:
    X, y, s = table()
    model = FairRidge(**FIXED, n_components=8).fit(X, y.astype(float), sensitive_features=s)
    with tempfile.TemporaryDirectory() as folder:
        return save_model(model, Path(folder) / "model.skops").read_bytes()


@functools.cache
def checkpoint_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        one = Checkpoint(Path(folder) / "fit.ckpt")
        one.save({"place": 3}, {"a": np.arange(2000.0).reshape(40, 50), "b": np.arange(5)})
        return one.path.read_bytes()


@functools.cache
def _federated_bytes() -> tuple[bytes, bytes]:
    """A pilot, and the moments of a site."""
    X, y, s = table()
    est = FairRidge(gamma=0.5, landmarks=X[:6], random_state=0)
    est.prepare(X, y.astype(float), sensitive_features=s, folds="hash")
    with tempfile.TemporaryDirectory() as folder:
        pilot = est.export_pilot(Path(folder) / "pilot.npz", public=True)
        est.partial_fit(X, y.astype(float), sensitive_features=s, solve=False)
        moments = est.export_moments(Path(folder) / "site.npz", site="north", min_rows=1)
        return pilot.read_bytes(), moments.read_bytes()


def pilot_bytes() -> bytes:
    return _federated_bytes()[0]


def moments_bytes() -> bytes:
    return _federated_bytes()[1]


def frame(n=400):
    import pandas as pd

    X, y, s = table(n)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(s=s, y=y + 0.1 * X[:, 0])


@functools.cache
def table_bytes(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "csv":
        return frame().to_csv(index=False).encode()
    getattr(frame(), f"to_{kind}")(out)
    return out.getvalue()


# --------------------------------------------------------------------------- archives


def parts_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(parts, compression=zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in dict(parts).items():
            archive.writestr(name, content)
    return out.getvalue()


def nodes_of(tree):
    """Every dict in a schema, outermost first."""
    found = [tree]
    while found:
        node = found.pop(0)
        if isinstance(node, dict):
            yield node
        found += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []


def with_schema(change) -> bytes:
    """The good model with another schema; ``change`` takes the tree, and returns one or edits it."""
    parts = parts_of(model_bytes())
    schema = json.loads(parts["schema.json"])
    schema = change(schema) or schema
    return archive_of({**parts, "schema.json": json.dumps(schema).encode()})


def node(loader, module, name, number, **more):
    return {"__class__": name, "__module__": module, "__loader__": loader, "__id__": number, **more}


def text_node(value, number):
    return node("JsonNode", "builtins", "str", number, content=json.dumps(value), is_json=True)


def list_node(content, number):
    return node("ListNode", "builtins", "list", number, content=content)


def instead_of_kernel(evil):
    """A schema whose model has this for a kernel."""

    def change(schema):
        schema["content"]["model"]["content"]["content"]["kernel"] = evil

    return change


def npy(array) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def npy_header(descr: str, shape: str, body=b"") -> bytes:
    """An array that claims a shape of its own choice."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + body


def with_array(content: bytes) -> bytes:
    """The good model with other bytes for its first array."""
    parts = parts_of(model_bytes())
    first = next(name for name in parts if name.endswith(".npy"))
    return archive_of({**parts, first: content})


def flipped(content: bytes, place: int) -> bytes:
    out = bytearray(content)
    out[place] ^= 0x55
    return bytes(out)


def at_word(content: bytes, word: bytes, by: int = 0) -> int:
    return content.index(word) + by


def lying_bomb(parts) -> bytes:
    """Compressed parts that the directory says are small and stored nowhere near their size."""
    out = archive_of(parts, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(io.BytesIO(out)) as archive:
        sizes = [(info.filename, info.file_size) for info in archive.infolist()]
    damaged = bytearray(out)
    for _, size in sizes:
        known = struct.pack("<I", size)
        place = damaged.find(known)
        while size > 2**20 and place >= 0:
            damaged[place : place + 4] = struct.pack("<I", 64)
            place = damaged.find(known, place + 4)
    return bytes(damaged)


def overlapping() -> bytes:
    """Many names in the directory, one part behind all of them."""
    body = archive_of({"schema.json": b" " * 200_000})
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        info = archive.infolist()[0]
        start = archive.start_dir
    entry = body[start : body.index(b"PK\x05\x06")]
    names = [f"{k:07}.npy".encode() for k in range(2000)]
    assert len(names[0]) == len(info.filename)
    directory = b"".join([entry, *(entry.replace(b"schema.json", name) for name in names)])
    count = len(names) + 1
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), start, 0)
    return body[:start] + directory + end


def deep_schema(depth: int) -> bytes:
    parts = parts_of(model_bytes())
    return archive_of({**parts, "schema.json": b"[" * depth + b"]" * depth})


def deep_nodes(depth: int) -> bytes:
    def change(schema):
        inner = text_node("x", 10**6)
        for k in range(depth):
            inner = list_node([inner], 10**6 + 1 + k)
        instead_of_kernel(inner)(schema)

    return with_schema(change)


def laughs(depth: int) -> bytes:
    """Each list holds the next one twice, the second time by its number: 2^depth of the last."""

    def change(schema):
        inner = text_node("ha", 10**6)
        for k in range(depth):
            inner = list_node([inner, {"__id__": inner["__id__"]}], 10**6 + 1 + k)
        instead_of_kernel(inner)(schema)

    return with_schema(change)


def one_array_a_thousand_times(schema):
    """A large array that a thousand nodes load, each for itself."""
    found = next(one for one in nodes_of(schema) if "file" in one)
    many = [{**found, "__id__": 10**6 + k} for k in range(1000)]
    instead_of_kernel(list_node(many, 10**6 - 1))(schema)


def written(name: str, content) -> Callable[[Path], Path]:
    """A maker of a file with this name; the content may need the folder."""

    def make(folder: Path) -> Path:
        path = folder / name
        found = content(folder) if "folder" in signature(content).parameters else content()
        path.write_bytes(found)
        return path

    return make


# --------------------------------------------------------------------------- model files


def command(folder: Path) -> str:
    return f"touch {folder / SENTINEL}"


def calls_system(folder):
    return with_schema(instead_of_kernel(node("FunctionNode", "os", "system", 10**6, content={})))


def popen(folder):
    state = node(
        "DictNode",
        "builtins",
        "dict",
        10**6 + 1,
        content={"args": text_node(command(folder), 10**6 + 2)},
        key_types=list_node([], 10**6 + 3),
    )
    evil = node("ObjectNode", "subprocess", "Popen", 10**6, content=state)
    return with_schema(instead_of_kernel(evil))


def method_of(folder):
    inner = node("TypeNode", "os", "system", 10**6 + 1)
    inner["__class__"] = inner["content"] = {"__class__": "system", "__module__": "os"}
    content = {"func": "__call__", "obj": inner}
    evil = node("MethodNode", "builtins", "method", 10**6, content=content)
    return with_schema(instead_of_kernel(evil))


def operator_call(folder):
    attrs = node(
        "TupleNode", "builtins", "tuple", 10**6 + 1, content=[text_node(command(folder), 10**6 + 2)]
    )
    evil = node("OperatorFuncNode", "os", "system", 10**6, attrs=attrs)
    return with_schema(instead_of_kernel(evil))


def imports_a_module(folder):
    """A module that leaves a file when it is imported, and a file that names a type of it."""
    name = f"imported_{zlib.crc32(str(folder).encode())}"
    text = f"open({str(folder / SENTINEL)!r}, 'w').close()\n\nclass Kernel:\n    pass\n"
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    return with_schema(instead_of_kernel(node("TypeNode", name, "Kernel", 10**6)))


def pickled(folder):
    return pickle.dumps(WritesAFile(folder / SENTINEL))


def pickled_array(folder):
    return npy(np.array([WritesAFile(folder / SENTINEL)], dtype=object))


def newer(schema):
    schema["content"]["format"]["content"] = "99"


def newer_skops(schema):
    schema["protocol"] = 99


def other_format(schema):
    schema["content"]["format"] = text_node("\x1b[31mone", 10**6)


def no_model(schema):
    del schema["content"]["model"]


def another_estimator(schema):
    model = schema["content"]["model"]
    model["__class__"], model["__module__"] = "Ridge", "sklearn.linear_model._ridge"


def unfitted(schema):
    model = schema["content"]["model"]["content"]
    place = list(model["content"]).index("_state")
    del model["content"]["_state"], model["key_types"]["content"][place]


def no_state(schema):
    for one in nodes_of(schema):
        if one.get("__loader__") == "ObjectNode":
            one["content"] = text_node("nothing", 10**6)


def arrays_of_another_type(schema):
    """Only trusted types, put together as nothing of ours is."""
    for one in list(nodes_of(schema)):
        if one.get("__class__") == "ndarray":
            one["__class__"], one["__module__"] = "FairRidge", "fairspan.estimators.ridge"


def array_as_bytes() -> bytes:
    """An array whose header is not checked, because its part has the name of raw bytes."""
    parts = parts_of(model_bytes())
    first = next(name for name in parts if name.endswith(".npy"))
    schema = parts["schema.json"].replace(first.encode(), b"1.bin")
    claimed = npy_header("<f8", f"({2**37},)", bytes(64))
    return archive_of({**parts, "schema.json": schema, "1.bin": claimed})


def parts_exchanged(schema):
    content = schema["content"]["model"]["content"]["content"]["_state"]["content"]["content"]
    content["solution"], content["pilot"] = content["pilot"], content["solution"]


def foreign_skops():
    import skops.io
    from sklearn.linear_model import Ridge

    return skops.io.dumps(Ridge())


def compressed_array() -> bytes:
    bomb = npy_header("<f8", f"({2**28},)") + bytes(2**26)  # 2 GiB claimed
    return archive_of({**parts_of(model_bytes()), "1.npy": bomb}, zipfile.ZIP_DEFLATED)


def twice_one_name() -> bytes:
    out = io.BytesIO(model_bytes())
    import warnings

    with warnings.catch_warnings(), zipfile.ZipFile(out, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("schema.json", b"{}")
    return out.getvalue()


def sparse_part() -> bytes:
    inner = archive_of({"data.npy": bytes(2**22)}, zipfile.ZIP_DEFLATED)
    return archive_of({**parts_of(model_bytes()), "1.npz": inner})


MODEL_FILES = {
    "empty": lambda: b"",
    "text": lambda: b"hello\n",
    "a megabyte of NUL": lambda: bytes(2**20),
    **{
        f"cut after {share:.0%}": lambda share=share: model_bytes()[
            : int(share * len(model_bytes()))
        ]
        for share in (0.01, 0.25, 0.5, 0.75, 0.99)
    },
    "last byte missing": lambda: model_bytes()[:-1],
    "first bytes missing": lambda: model_bytes()[10:],
    "bit flipped in an array": lambda: flipped(
        model_bytes(), at_word(model_bytes(), b"NUMPY", 140)
    ),
    "bit flipped in the schema": lambda: flipped(
        model_bytes(), at_word(model_bytes(), b'"__loader__"', 20)
    ),
    "newer format": lambda: with_schema(newer),
    "newer skops": lambda: with_schema(newer_skops),
    "format is text": lambda: with_schema(other_format),
    "no model in it": lambda: with_schema(no_model),
    "unfitted model": lambda: with_schema(unfitted),
    "another library's skops file": foreign_skops,
    "another library's estimator": lambda: with_schema(another_estimator),
    "objects without a state": lambda: with_schema(no_state),
    "arrays of another type": lambda: with_schema(arrays_of_another_type),
    "an array as raw bytes": array_as_bytes,
    "parts of a model exchanged": lambda: with_schema(parts_exchanged),
    "pickle": pickled,
    "gzipped pickle": lambda folder: gzip.compress(pickled(folder)),
    "pickle inside an array": lambda folder: with_array(pickled_array(folder)),
    "function os.system": calls_system,
    "object subprocess.Popen": popen,
    "method of os.system": method_of,
    "operator over os.system": operator_call,
    "module run when imported": imports_a_module,
    "compressed bomb": compressed_array,
    "compressed bomb, sizes lied about": lambda: lying_bomb(
        {**parts_of(model_bytes()), "1.npy": bytes(2**26)}
    ),
    "two thousand names of one part": overlapping,
    "array claims a terabyte": lambda: with_array(npy_header("<f8", f"({2**37},)", bytes(64))),
    "array claims 10^18 empty texts": lambda: with_array(npy_header("<U0", f"({10**18},)")),
    "array claims a negative length": lambda: with_array(npy_header("<f8", "(-8,)", bytes(64))),
    "array header is a program": lambda: with_array(
        npy_header("__import__('os')", "(1,)", bytes(8))
    ),
    "JSON 100,000 deep": lambda: deep_schema(100_000),
    "nodes 300 deep": lambda: deep_nodes(300),
    "a billion laughs": lambda: laughs(60),
    "one array a thousand times": lambda: with_schema(one_array_a_thousand_times),
    "no schema": lambda: archive_of({"1.npy": npy(np.zeros(3))}),
    "schema is a list": lambda: archive_of({"schema.json": b"[]"}),
    "schema is not UTF-8": lambda: archive_of({"schema.json": b'{"a": "\xff\xfe"}'}),
    "two schemas": twice_one_name,
    "a zip file inside": sparse_part,
}


# --------------------------------------------------------------------------- checkpoints


def checkpoint_with(**arrays) -> bytes:
    extra = {f"{name}.npy": content for name, content in arrays.items()}
    return archive_of({**parts_of(checkpoint_bytes()), **extra})


CHECKPOINTS = {
    "empty": lambda: b"",
    **{
        f"cut after {share:.0%}": lambda share=share: checkpoint_bytes()[
            : int(share * len(checkpoint_bytes()))
        ]
        for share in (0.01, 0.5, 0.99)
    },
    "bit flipped": lambda: flipped(checkpoint_bytes(), 2000),
    "pickle": pickled,
    "pickle inside an array": lambda folder: checkpoint_with(a=pickled_array(folder)),
    "array of objects": lambda: checkpoint_with(a=npy(np.array([None, "x"], dtype=object))),
    "array of other numbers": lambda: checkpoint_with(a=npy(np.zeros((40, 50)))),
    "one array more": lambda: checkpoint_with(c=npy(np.zeros(3))),
    "compressed bomb": lambda: archive_of(
        {**parts_of(checkpoint_bytes()), "a.npy": npy_header("<f8", f"({2**23},)", bytes(2**26))},
        zipfile.ZIP_DEFLATED,
    ),
    "compressed bomb, sizes lied about": lambda: lying_bomb({"a.npy": bytes(2**26)}),
    "array claims a terabyte": lambda: checkpoint_with(
        a=npy_header("<f8", f"({2**37},)", bytes(9))
    ),
    "array of a later format": lambda: checkpoint_with(a=b"\x93NUMPY\x09\x00" + bytes(100)),
    "a model file": model_bytes,
    "header 100,000 deep": lambda: archive_of(
        {"header.json.npy": npy(np.frombuffer(b"[" * 100_000, dtype=np.uint8))}
    ),
    "header is a list": lambda: archive_of(
        {"header.json.npy": npy(np.frombuffer(b"[1]", dtype=np.uint8))}
    ),
}


# --------------------------------------------------------------------------- tables


def huge_claims(content: bytes) -> bytes:
    """Parquet whose row count, a varint in the footer, claims 2^40 rows."""
    known = zigzag(400)
    footer = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    head, tail = content[:footer], content[footer:-8]
    tail = tail.replace(known, zigzag(2**40))
    return head + tail + struct.pack("<I", len(tail)) + b"PAR1"


def zigzag(number: int) -> bytes:
    number, out = 2 * number, bytearray()
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes([*out, number])


def wild_offsets() -> bytes:
    """Text whose places in memory are anywhere: read unchecked, the process ends."""
    import pyarrow
    from pyarrow import feather

    text = pyarrow.array([f"group{k % 2}" for k in range(400)])
    one = pyarrow.Table.from_pandas(frame()).set_column(3, "s", text)
    out = io.BytesIO()
    feather.write_feather(one, out, compression="uncompressed")
    offsets = np.arange(401, dtype=np.int32) * 6
    return out.getvalue().replace(offsets[100:300].tobytes(), (offsets[100:300] * 1000).tobytes())


def wide(n: int) -> bytes:
    names = ",".join(f"c{k}" for k in range(n))
    return f"{names}\n{'1,' * (n - 1)}2\n".encode()


TABLES = {
    "empty.csv": lambda: b"",
    "only a header.csv": lambda: b"a,b,c,s,y\n",
    "NUL bytes.csv": lambda: b"a,b,c,s,y\n" + bytes(4000),
    "a column of text where numbers were.csv": lambda: (
        table_bytes("csv") + b"one,two,three,0,four\n"
    ),
    "rows of different lengths.csv": lambda: table_bytes("csv") + b"1,2,3\n1,2,3,4,5,6,7\n",
    "names not UTF-8.csv": lambda: table_bytes("csv").replace(b"a,b,c,s,y", b"a,b,c,\xff,y"),
    "a quote never closed.csv": lambda: b'a,b,c,s,y\n"' + table_bytes("csv"),
    "two columns of one name.csv": lambda: table_bytes("csv").replace(b"a,b,c", b"a,a,c"),
    "100,000 columns, none of them named.csv": lambda: wide(100_000),
    "Parquet renamed.csv": lambda: table_bytes("parquet"),
    "pickle renamed.csv": pickled,
    "text renamed.csv.gz": lambda: table_bytes("csv"),
    "cut short.csv.gz": lambda: gzip.compress(table_bytes("csv"))[:-300],
    "garbled.csv.gz": lambda: flipped(gzip.compress(table_bytes("csv")), 3000),
    "empty.parquet": lambda: b"",
    "cut in half.parquet": lambda: table_bytes("parquet")[: len(table_bytes("parquet")) // 2],
    "last byte missing.parquet": lambda: table_bytes("parquet")[:-1],
    "footer length absurd.parquet": lambda: table_bytes("parquet")[:-8] + b"\xff\xff\xff\x7fPAR1",
    "claims 2^40 rows.parquet": lambda: huge_claims(table_bytes("parquet")),
    "CSV renamed.parquet": lambda: table_bytes("csv"),
    "pickle renamed.parquet": pickled,
    "cut in half.feather": lambda: table_bytes("feather")[: len(table_bytes("feather")) // 2],
    "claims 2^40 rows.feather": lambda: table_bytes("feather").replace(
        struct.pack("<q", 400), struct.pack("<q", 2**40)
    ),
    "offsets of text out of bounds.feather": wild_offsets,
    "CSV renamed.feather": lambda: table_bytes("csv"),
    "pickle.pkl": pickled,
}

# The command line reads these tables.
_ONLY_STREAMS = (
    "a column of text where numbers were.csv",
    "two columns of one name.csv",
    "100,000 columns, none of them named.csv",
    "NUL bytes.csv",
    # The content decides what a file is, and text that is not UTF-8 is read as cp1252.
    "names not UTF-8.csv",
    "Parquet renamed.csv",
    "text renamed.csv.gz",
)

DATA_FILES = {
    "another text.csv.gz": lambda: gzip.compress(b"a,b\n1,2\n"),
    "cut short.csv.gz": lambda: gzip.compress(table_bytes("csv"))[:-300],
    "a quarter of a gigabyte.csv.gz": lambda: bomb_bytes("gz", 2**28),
    "pickle.csv.gz": pickled,
}


@functools.cache
def bomb_bytes(kind: str, size: int) -> bytes:
    """So many bytes of zeros, compressed, made a little at a time."""
    make = {
        "gz": lambda: zlib.compressobj(9, zlib.DEFLATED, 31),
        "bz2": bz2.BZ2Compressor,
        "xz": lambda: lzma.LZMACompressor(preset=1),
    }[kind]()
    head = make.compress(b"a,b,c,s,y\n")
    chunk = b"0,0,0,0,0\n" * (2**20 // 10)
    body = [make.compress(chunk) for _ in range(size // len(chunk))]
    return b"".join([head, *body, make.flush()])


def _all() -> tuple[Hostile, ...]:
    out = [
        Hostile(name, reader, written(file, content))
        for reader, file, found in (
            ("model", "model.skops", MODEL_FILES),
            ("checkpoint", "fit.ckpt", CHECKPOINTS),
        )
        for name, content in found.items()
    ]
    out += [Hostile(name, "stream", written(name, make)) for name, make in TABLES.items()]
    out += [
        Hostile(name, "command line", written(name, make))
        for name, make in TABLES.items()
        if name not in _ONLY_STREAMS and not name.endswith((".feather", ".pkl"))
    ]
    out += [Hostile(name, "data set", written(name, make)) for name, make in DATA_FILES.items()]
    return tuple(out)


# The reason that some must be given: another check further in would refuse them too late.
WHY = {
    "model: newer format": "Upgrade fairspan",
    "model: function os.system": "does not trust",
    "model: object subprocess.Popen": "does not trust",
    "model: module run when imported": "does not trust",
    "model: pickle inside an array": "holds Python objects",
    "model: compressed bomb": "is compressed",
    "model: compressed bomb, sizes lied about": "is compressed",
    "model: two thousand names of one part": "larger than the file",
    "model: array claims a terabyte": "claims a shape",
    "model: array claims 10^18 empty texts": "claims a shape",
    "model: nodes 300 deep": "nests too deeply",
    "model: JSON 100,000 deep": "nests too deeply",
    "model: one array a thousand times": "stands for two",
    "model: arrays of another type": "not numpy's",
    "model: an array as raw bytes": "not numpy's",
    "model: two schemas": "have one name",
    "model: a zip file inside": "is not an array",
    "checkpoint: pickle inside an array": "holds Python objects",
    "checkpoint: compressed bomb": "is compressed",
    "checkpoint: compressed bomb, sizes lied about": "is compressed",
    "checkpoint: array claims a terabyte": "claims a shape",
    "stream: names not UTF-8.csv": "cannot be opened",
    "stream: claims 2^40 rows.parquet": "claims 1,099,511,627,776 rows",
    "stream: claims 2^40 rows.feather": "claims 1,099,511,627,776 rows",
    "command line: claims 2^40 rows.parquet": "does not fit in memory",
}

HOSTILE = _all()
NAMES = tuple(f"{one.reader}: {one.name}" for one in HOSTILE)


def run(one: Hostile) -> tuple[str | None, bool, int]:
    """In a folder of its own: the message, whether code ran, and the most memory it took, in bytes."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        known = list(sys.path)
        path = one.make(folder)
        tracemalloc.start()
        try:
            message = refusal(one, path)
            ran = (folder / SENTINEL).exists()
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            sys.path[:] = known
    return message, ran, most


def main() -> None:
    refused = []
    for one, name in zip(HOSTILE, NAMES, strict=True):
        with suppress(Exception):
            message, ran, _ = run(one)
            if message and not ran:
                refused.append(name)
    missing = [name for name in NAMES if name not in refused]
    print(f"hostile files refused: {len(refused)} of {len(NAMES)}")
    print("\n".join(f"  {name}" for name in refused))
    for name in missing:
        print(f"  NOT refused: {name}")


if __name__ == "__main__":
    main()
