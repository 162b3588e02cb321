"""Downloads from a server in this process: what succeeds, what fails, and what is left behind."""

import gc
import gzip
import hashlib
import http.server
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from fairspan.datasets import _files, _regression
from fairspan.datasets._classification import ADULT
from fairspan.exceptions import DatasetError

# pooch leaves a failed connection to the garbage collector, which the fixture `cache` calls.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PART = b"colour,count\nred,1\nblue,2\n" * 5000
TEXT = PART.upper()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.lstrip("/")
        self.server.asked.append(name)
        if self.server.gate is not None:
            self.server.gate.wait()
        if name not in self.server.content:
            self.send_error(404)
            return
        body, length = self.server.content[name]
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Keep quiet."""


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("pooch")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content, server.asked, server.gate = {"part.csv": (PART, len(PART))}, [], None
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache of this test, and no other folder to look in."""
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("FAIRSPAN_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "caches" / project)
    yield tmp_path / "caches" / "fairspan"
    gc.collect()


def data_file(url, **changes):
    file = _files.DataFile(
        name="table.csv.gz",
        sha256=sha256(gzip.compress(TEXT, mtime=0)),
        text_sha256=sha256(TEXT),
        sources={f"{url}/part.csv": sha256(PART)},
        convert=lambda parts: b"".join(parts).upper(),
    )
    return replace(file, **changes)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def get(file, data_home=None):
    path = _files.find(file, data_home, "fetch_table")
    return path, _files.read(file, path)


# ---------------------------------------------------------------- success


def test_a_download_is_kept_in_the_cache(server, cache):
    file = data_file(server.url)
    path, text = get(file)
    assert (path, text) == (cache / "table.csv.gz", TEXT)
    assert names(cache) == ["table.csv.gz"]
    assert get(file) == (path, TEXT)
    assert server.asked == ["part.csv"]  # the second time from the cache


def test_data_home_keeps_the_download_when_given(server, cache, tmp_path):
    path, text = get(data_file(server.url), tmp_path / "deep" / "home")
    assert (path, text) == (tmp_path / "deep" / "home" / "table.csv.gz", TEXT)
    assert names(path.parent) == ["table.csv.gz"]
    assert not cache.exists()


def test_the_order_of_folders(server, cache, tmp_path, monkeypatch):
    file = data_file(server.url)
    folders = [tmp_path / "argument", tmp_path / "environment", cache]
    for level, folder in enumerate(folders):
        folder.mkdir(parents=True)
        # Another compression for each: the text decides, not the bytes around it.
        (folder / file.name).write_bytes(gzip.compress(TEXT, compresslevel=level + 1))
    monkeypatch.setenv("FAIRSPAN_DATA", str(folders[1]))
    for folder in folders:
        path, text = get(file, folders[0])
        assert (path, text) == (folder / file.name, TEXT)
        path.unlink()
    assert server.asked == []
    assert get(file, folders[0])[0].parent == folders[0]
    assert server.asked == ["part.csv"]


def test_a_damaged_file_in_the_cache_is_fetched_again(server, cache):
    file = data_file(server.url)
    path, _ = get(file)
    path.write_bytes(path.read_bytes()[:-100])
    assert get(file) == (path, TEXT)
    assert server.asked == ["part.csv"] * 2


@pytest.mark.parametrize("given", ["argument", "environment"])
@pytest.mark.parametrize("damage", ["truncated", "other text", "not gzip"])
def test_a_damaged_file_of_the_user_is_an_error(
    server, cache, tmp_path, monkeypatch, given, damage
):
    file, whole = data_file(server.url), gzip.compress(TEXT)
    packed = {
        "truncated": whole[:-100],
        "other text": gzip.compress(TEXT[:-1] + b"."),
        "not gzip": TEXT,
    }[damage]
    (tmp_path / file.name).write_bytes(packed)
    home = tmp_path if given == "argument" else None
    if given == "environment":
        monkeypatch.setenv("FAIRSPAN_DATA", str(tmp_path))
    with pytest.raises(DatasetError) as caught:
        get(file, home)
    for part in (str(tmp_path / file.name), sha256(packed), file.sha256):
        assert part in str(caught.value)
    assert server.asked == []
    assert (tmp_path / file.name).read_bytes() == packed


def test_two_processes_at_once_end_with_one_good_copy(server, tmp_path):
    server.gate = threading.Barrier(2, timeout=60)  # neither is answered before both have asked
    code = f"""
import sys
from fairspan.datasets import _files
sources = {{"{server.url}/part.csv": "{sha256(PART)}"}}
file = _files.DataFile(
    name="table.csv.gz",
    sha256="0",
    text_sha256="{sha256(TEXT)}",
    sources=sources,
    convert=lambda parts: parts[0].upper(),
)
path = _files.find(file, sys.argv[1], "fetch_table")
assert len(_files.read(file, path)) == {len(TEXT)}
"""
    command = [sys.executable, "-c", code, str(tmp_path / "home")]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [run.communicate(timeout=120)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    assert server.asked == ["part.csv"] * 2
    assert names(tmp_path / "home") == ["table.csv.gz"]
    assert gzip.decompress((tmp_path / "home" / "table.csv.gz").read_bytes()) == TEXT


# ---------------------------------------------------------------- failure


def refused(file, cache, *says, data_home=None):
    """One error that says what, why and where to put it; and nothing under the file's name."""
    home = data_home or cache
    with pytest.raises(DatasetError) as caught:
        get(file, data_home)
    for part in (file.name, file.sha256, str(home / file.name), "FAIRSPAN_DATA", *says):
        assert part in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert not home.is_dir() or names(home) == []


def test_wrong_bytes_at_the_source(server, cache):
    other = PART[:-2] + b"!\n"
    server.content["part.csv"] = other, len(other)
    refused(data_file(server.url), cache, server.url, sha256(other), sha256(PART))


def test_a_download_cut_short(server, cache):
    server.content["part.csv"] = PART[: len(PART) // 2], len(PART)
    refused(data_file(server.url), cache, server.url)


def test_a_shorter_file_that_says_so(server, cache):
    short = PART[: len(PART) // 2]
    server.content["part.csv"] = short, len(short)
    refused(data_file(server.url), cache, server.url, sha256(short))


def test_nothing_at_the_address(server, cache):
    server.content.clear()
    refused(data_file(server.url), cache, server.url, "404")


def test_the_second_of_two_parts_fails(server, cache):
    file = data_file(server.url)
    file = replace(file, sources={**file.sources, f"{server.url}/b.csv": "0" * 64})
    refused(file, cache, f"{server.url}/b.csv", "404")
    assert server.asked == ["part.csv", "b.csv"]


def test_no_network(cache, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        refused(data_file(url), cache, url)


def test_a_conversion_that_gives_another_text(server, cache):
    file = data_file(server.url, convert=lambda parts: parts[0])
    refused(file, cache, sha256(PART), sha256(TEXT))


def test_a_folder_that_cannot_be_made(server, cache, tmp_path):
    (tmp_path / "file").write_text("in the way")
    refused(data_file(server.url), cache, "file", data_home=tmp_path / "file" / "home")
    assert server.asked == []


def test_a_folder_that_cannot_be_written(server, cache):
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    try:
        if os.access(cache, os.W_OK):
            pytest.skip("this user may write anywhere")
        refused(data_file(server.url), cache, "Permission denied")
    finally:
        cache.chmod(0o700)
    assert server.asked == []


@pytest.mark.parametrize("step", ["tempfile.TemporaryDirectory", "os.replace"])
def test_a_file_system_that_turns_read_only(server, cache, monkeypatch, step):
    def fail(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(f"fairspan.datasets._files.{step}", fail)
    refused(data_file(server.url), cache, "Read-only file system")


def test_a_damaged_cache_without_source_is_an_error(cache):
    file = data_file("", sources=(), convert=None, why_no_source="none is known")
    refused(file, cache, "none is known")
    cache.mkdir(parents=True)
    (cache / file.name).write_bytes(b"damaged")
    with pytest.raises(DatasetError, match=sha256(b"damaged")):
        get(file)


def test_pooch_is_needed_only_beyond_the_users_folders(tmp_path, monkeypatch):
    file = data_file("http://127.0.0.1:9")
    monkeypatch.delenv("FAIRSPAN_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'`fetch_table` needs `pooch`.*"fairspan\[data\]"'):
        get(file, tmp_path)
    (tmp_path / file.name).write_bytes(gzip.compress(TEXT))
    assert get(file, tmp_path)[1] == TEXT


# ------------------------------------------------------- two loaders, end to end

ADULT_TRAIN = b"""\
30, Private, 1, HS-grad, 9, Divorced, Sales, Unmarried, Black, Female, 0, 0, 40, ?, <=50K
41, ?, 2, Masters, 14, Never-married, ?, Own-child, White, Male, 5, 0, 20, Peru, >50K

"""
ADULT_TEST = b"""\
|1x3 Cross validator
52, Private, 3, 11th, 7, Widowed, Sales, Unmarried, Other, Male, 0, 9, 60, Cuba, <=50K.

"""
ADULT_TEXT = b"""\
age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,\
capital_gain,capital_loss,hours_per_week,native_country,income,split
30,Private,1,HS-grad,9,Divorced,Sales,Unmarried,Black,Female,0,0,40,,<=50K,train
41,,2,Masters,14,Never-married,,Own-child,White,Male,5,0,20,Peru,>50K,train
52,Private,3,11th,7,Widowed,Sales,Unmarried,Other,Male,0,9,60,Cuba,<=50K,test
"""


def served(server, file, text, **parts):
    """The loader of a data file whose sources are on `server`, with a made-up content."""
    server.content = {name: (part, len(part)) for name, part in parts.items()}
    sources = {f"{server.url}/{name}": sha256(part) for name, part in parts.items()}
    file = replace(file, sources=sources, text_sha256=sha256(text))
    return _files.make_loader(file)


def test_adult_from_its_two_files(server, cache):
    pytest.importorskip("pandas")
    parts = {"adult.data": ADULT_TRAIN, "adult.test": ADULT_TEST}
    fetch_adult = served(server, ADULT, ADULT_TEXT, **parts)
    found = fetch_adult()
    assert found.filename == str(cache / "adult.csv.gz")
    assert found.target.tolist() == ["<=50K", ">50K", "<=50K"]
    assert found.sensitive_features["age"].tolist() == [30, 41, 52]
    assert found.data["workclass"].isna().tolist() == [False, True, False]
    assert found.frame["split"].tolist() == ["train", "train", "test"]
    assert server.asked == ["adult.data", "adult.test"]
    assert fetch_adult().frame.equals(found.frame)
    assert len(server.asked) == 2


def test_communities_from_its_file(server, cache):
    pytest.importorskip("pandas")
    columns = _regression._COMMUNITIES_COLUMNS
    assert len(columns) == len(set(columns)) == 128
    source = (
        "8,?,?,Atown,1" + ",0.5" * 122 + ",1\r\n" + "9,3,70,Btown,2" + ",0" * 121 + ",?,0.25\r\n"
    )
    text = ",".join(columns) + "\n8,,,Atown,1" + ",0.5" * 122 + ",1.0\n"
    text += "9,3,70,Btown,2" + ",0.0" * 121 + ",,0.25\n"
    parts = {"communities.data": source.encode()}
    found = served(server, _regression.COMMUNITIES, text.encode(), **parts)()
    assert found.target.tolist() == [1, 0.25]
    assert found.data["PolicBudgPerPop"].isna().tolist() == [False, True]
    assert found.frame["communityname"].tolist() == ["Atown", "Btown"]


def test_a_data_file_that_cannot_be_read_is_named(tmp_path):
    from fairspan.datasets import _files
    from fairspan.exceptions import DatasetError

    with pytest.raises(DatasetError, match=r"data cannot be read"):
        _files.read(None, tmp_path / "data")


@pytest.mark.parametrize("there", [True, False])
def test_a_download_that_fails_leaves_folders_as_they_were(there, tmp_path, monkeypatch):
    from types import SimpleNamespace

    from fairspan.datasets import _files

    def fails(*_):
        raise OSError("no way out")

    monkeypatch.setattr(_files, "_download_into", fails)
    folder = tmp_path / "data"
    if there:
        folder.mkdir()
    with pytest.raises(OSError, match="no way out"):
        _files._download(SimpleNamespace(convert=len), folder, None)
    assert folder.exists() == there
