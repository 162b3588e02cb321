"""Interrupts, full disks, folders that cannot be written, killed processes: nothing half done is left.

``python -m tests.robust.test_faults`` prints which faults are survived.
"""

import contextlib
import copy
import errno
import gzip
import hashlib
import inspect
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("skops")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("pooch")

import fairspan
from fairspan import (
    CheckpointError,
    DatasetError,
    FairGPClassifier,
    FairRidge,
    FairRidgeClassifier,
    audit,
    fairness_path,
    load_model,
    save_model,
)
from fairspan.datasets import _files as data_files
from fairspan.streaming import Checkpoint
from fairspan_lab.cells import write_table, write_text
from tests.support import stream_data
from tests.support.small import FIXED, table

ROOT = Path(__file__).resolve().parents[2]
SOURCE = str(Path(fairspan.__file__).parent)
POINTS = 14  # of interruption, in each call
MANAGERS = ("_unchanged_on_error", "naming_rows", "atomic_write")
pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks as POSIX has them")


# ------------------------------------------------------------------ interrupts


class Clock:
    """Raises at the k-th call of a function of ours, or never, and counts them."""

    def __init__(self, k=0, event="call", only=None):
        self.k, self.n, self._event, self._only = k, 0, event, only

    def __call__(self, frame, event, _):
        code = frame.f_code
        # What is raised in a generator that the garbage collector closes is lost.
        closed = code.co_flags & inspect.CO_GENERATOR and code.co_name not in MANAGERS
        if closed or not code.co_filename.startswith(SOURCE):
            return None
        if event == self._event and (self._only is None or code.co_name == self._only):
            self.n += 1
            if self.n == self.k:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self if self._event == "line" else None


def interrupted(call, clock):
    """Whether the clock stopped the call."""
    before = sys.gettrace()
    sys.settrace(clock)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def state(*estimators):
    """Everything an estimator holds, down to the last number."""
    return [pickle.dumps(vars(one)) for one in estimators]


def rows(n=60, seed=0):
    X, y, s = table(n, seed)
    return {"X": X, "y": y.astype(float), "sensitive_features": s}


def ridge(**params):
    return FairRidge(**FIXED, n_components=8, random_state=0, **params)


def prepared():
    return ridge().prepare(**rows())


def fitted():
    return ridge().fit(**rows())


def started():
    return prepared().partial_fit(**rows())


def classes(seed=0):
    return {**rows(seed=seed), "y": table(60, seed).y}


def frames():
    return [stream_data.table(120, seed) for seed in (0, 1)]


def streamed(est, **more):
    with stream_data.small_blocks(64, 100):
        return est.fit_stream(frames(), **stream_data.NAMED, **more)


def gp(**params):
    return FairGPClassifier(**FIXED, n_components=8, random_state=0, **params)


def audited(model):
    X, y, s = table(80, 3)
    return audit(
        model,
        X,
        y,
        sensitive_features={"s": s},
        parts=["scores", "decisions", "certificate"],
        n_boot=20,
        n_permutations=19,
        random_state=0,
    )


def merged(est):
    worker = copy.copy(est).partial_fit(**rows(seed=1), solve=False)
    return lambda: est.merge(worker)


# A maker of an estimator, and what is done to it: the call, or a function that returns it.
INTERRUPTS = {
    "fit": (ridge, lambda est: lambda: est.fit(**rows())),
    "fit again": (fitted, lambda est: lambda: est.fit(**rows(seed=1))),
    "fit, gamma, eta and alpha chosen": (
        lambda: FairRidge(n_components=8, random_state=0),
        lambda est: lambda: est.fit(**rows()),
    ),
    "fit of a classifier": (
        lambda: FairRidgeClassifier(**FIXED, n_components=8),
        lambda est: lambda: est.fit(**classes()),
    ),
    "fit of a GP": (gp, lambda est: lambda: est.fit(**classes())),
    "fit of a GP again": (
        lambda: gp().fit(**classes()),
        lambda est: lambda: est.fit(**classes(1)),
    ),
    "prepare": (ridge, lambda est: lambda: est.prepare(**rows())),
    "partial_fit, first block": (ridge, lambda est: lambda: est.partial_fit(**rows())),
    "partial_fit, next block": (started, lambda est: lambda: est.partial_fit(**rows(seed=1))),
    "merge": (started, merged),
    "solve": (
        lambda: prepared().partial_fit(**rows(), solve=False),
        lambda est: est.solve and (lambda: est.solve()),
    ),
    "at": (fitted, lambda est: lambda: est.at(0.3)),
    "fit_stream": (ridge, lambda est: lambda: streamed(est)),
    "fit_stream again": (lambda: streamed(ridge()), lambda est: lambda: streamed(est)),
    "fairness_path": (
        fitted,
        lambda est: lambda: fairness_path(est, **rows(seed=2), n_points=3),
    ),
    "predict": (fitted, lambda est: lambda: est.predict(rows()["X"])),
    "audit": (fitted, lambda est: lambda: audited(est)),
}


def places(name):
    """So many calls of ours there are, and some of them spread over all."""
    make, call = INTERRUPTS[name]
    clock = Clock()
    assert not interrupted(call(make()), clock)
    spread = np.unique(np.linspace(1, clock.n, POINTS).astype(int))
    return clock.n, sorted({*spread.tolist(), 2, 3, clock.n - 1} & set(range(1, clock.n + 1)))


def survive_interrupts(name):
    """Interrupt at many places; the number of them."""
    make, call = INTERRUPTS[name]
    n, chosen = places(name)
    assert n > 3
    for k in chosen:
        est = make()
        before = state(est)
        if not interrupted(call(est), Clock(k)):
            assert k > 0.8 * n, "calls differ from run to run"  # caches of the first one
            continue
        assert state(est) == before, f"changed by an interrupt at call {k} of {n}"
    return len(chosen)


@pytest.mark.parametrize("name", INTERRUPTS)
def test_an_interrupt_leaves_the_estimator_as_it_was(name):
    survive_interrupts(name)


def test_an_interrupted_estimator_goes_on_as_if_nothing_had_been():
    est, beside = started(), started()
    for k in (5, 40, 80):
        assert interrupted(lambda: est.partial_fit(**rows(seed=1)), Clock(k))
    est.partial_fit(**rows(seed=1))
    beside.partial_fit(**rows(seed=1))
    X = rows(seed=2)["X"]
    np.testing.assert_array_equal(est.predict(X), beside.predict(X))


def survive_interrupted_restore():
    """A second Ctrl-C while an error is being undone: before or after it, and nothing in between."""
    bad = {**rows(seed=1), "y": None}
    for k in range(1, 12):
        est = fitted()
        params = est.get_params()
        with contextlib.suppress(ValueError):
            interrupted(lambda: est.fit(**bad), Clock(k, "line", "_unchanged_on_error"))  # noqa: B023
        assert est.get_params() == params


def test_a_second_interrupt_while_the_first_is_undone():
    survive_interrupted_restore()


def survive_interrupted_checkpoint():
    """Whatever was interrupted, the same call again ends in the same model."""
    new = stream_data.table(50, 9)
    whole = streamed(ridge()).predict(new[stream_data.FEATURES])
    for k in (200, 400, 600, 900):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fit.ckpt"
            interrupted(lambda: streamed(ridge(), checkpoint=path), Clock(k))  # noqa: B023
            assert {one.name for one in Path(folder).iterdir()} <= {"fit.ckpt"}
            found = streamed(ridge(), checkpoint=path).predict(new[stream_data.FEATURES])
            np.testing.assert_array_equal(found, whole)


def survive_interrupted_files():
    """Whatever writes a file leaves the old one, and nothing beside it."""
    all_ = to_write()
    for name, write in WRITERS.items():
        clock = Clock()
        with tempfile.TemporaryDirectory() as text:
            interrupted(lambda: write(Path(text) / "file", all_), clock)  # noqa: B023
        for k in np.unique(np.linspace(1, clock.n, 6).astype(int)):
            with tempfile.TemporaryDirectory() as text:
                path = Path(text) / "file"
                path.write_bytes(b"old")
                if interrupted(lambda: write(path, all_), Clock(k)):  # noqa: B023
                    assert path.read_bytes() == b"old", name
                assert [one.name for one in Path(text).iterdir()] == ["file"], name


# ------------------------------------------------------------------ disks


def draw(path, found, *, atomic=True):
    """A picture, as the command line writes it."""
    from matplotlib import pyplot

    from fairspan._system import atomic_write

    pyplot.switch_backend("agg")
    figure = found.plot().figure_
    with atomic_write(path) if atomic else contextlib.nullcontext(path) as part:
        figure.savefig(part, format="png")
    pyplot.close(figure)


def predict_to(path, model):
    model.predict_stream(rows(2000)["X"], path)


# Each takes a path and what there is to write: a model, and an audit of it.
WRITERS = {
    "save_model": lambda path, all_: save_model(all_.model, path),
    "checkpoint": lambda path, _: Checkpoint(path).save({}, {"a": np.zeros(10**4)}),
    "to_json": lambda path, all_: all_.found.to_json(path),
    "to_markdown": lambda path, all_: all_.found.to_markdown(path),
    "plot": lambda path, all_: draw(path, all_.found),
    "predict_stream": lambda path, all_: predict_to(path, all_.model),
    "table": lambda path, _: write_table(path, ["a"], [{"a": "x" * 99}] * 99, "\n"),
    "page": lambda path, _: write_text(path, "x" * 9999),
}


def to_write():
    """A model and its audit, after each writer ran once.

    Writers import modules on first use. A process that gave up its rights may be unable to read
    them, and caches that other libraries write are not under test.
    """
    model = fitted()
    all_ = SimpleNamespace(model=model, found=audited(model))
    draw(Path(os.devnull), all_.found, atomic=False)
    with tempfile.TemporaryDirectory() as folder:
        for name, write in WRITERS.items():
            write(Path(folder) / name, all_)
    return all_


def write_everything(folder):
    """Where no file can be longer than 1 KiB: what each writer says, and what it leaves."""
    import resource

    all_ = to_write()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    out = {}
    for name, write in WRITERS.items():
        path = Path(folder) / name
        path.write_bytes(b"old")
        try:
            write(path, all_)
        except OSError as error:
            out[name] = [errno.errorcode.get(error.errno, "none"), path.read_bytes() == b"old"]
        else:
            out[name] = ["written", False]
    left = sorted(one.name for one in Path(folder).iterdir())
    print(json.dumps([out, left]))


def survive_full_disk():
    with tempfile.TemporaryDirectory() as folder:
        out, left = json.loads(in_child("write_everything", folder))
    assert left == sorted(WRITERS)
    assert {old for _, old in out.values()} == {True}, out
    assert {code for code, _ in out.values()} <= {"EFBIG", "none"}, out


def survive_no_space_in_download():
    """ENOSPC from the write itself: a clear error, an empty folder."""
    with tempfile.TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:

        def full(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(Path, "write_bytes", full)
        folder = Path(text) / "home"
        with pytest.raises(DatasetError, match="No space left on device"):
            find(fake_pooch(), folder)
        assert not folder.exists()


def use_folder(folder, all_):
    """What each writer says of a folder, and how often a fit warns that it has no checkpoint."""
    out = {}
    for name, write in WRITERS.items():
        try:
            write(folder / name, all_)
        except OSError as error:
            out[name] = type(error).__name__
        else:
            out[name] = "written"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        streamed(ridge(), checkpoint=folder / "fit.ckpt")
    try:
        find(fake_pooch(), folder)
    except DatasetError as error:
        out["data set"] = "Permission denied" in str(error)
    load_model(folder / "model.skops")
    return out, sum("could not be written" in str(one.message) for one in said)


def as_nobody(folder):
    """In a process without rights: reading works, writing is refused, and said so."""
    home, locked = Path(folder), Path(folder) / "locked"
    all_ = to_write()
    save_model(all_.model, locked / "model.skops")
    # A rehearsal imports every module: without rights, those of this checkout may be unreadable.
    with tempfile.TemporaryDirectory() as writable:
        save_model(all_.model, Path(writable) / "model.skops")
        assert set(use_folder(Path(writable), all_)[0].values()) == {"written"}
    os.chmod(locked, 0o555)
    os.chmod(home, 0o755)
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    out, warned = use_folder(locked, all_)
    print(json.dumps([out, warned, sorted(one.name for one in locked.iterdir())]))


def survive_read_only_folder():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "locked").mkdir()
        out, warned, left = json.loads(in_child("as_nobody", folder))
        os.chmod(Path(folder) / "locked", 0o755)
    assert left == ["model.skops"]
    assert out.pop("data set") is True
    assert set(out.values()) == {"PermissionError"}, out
    assert warned == 1


def survive_no_home():
    """Neither $HOME nor an entry of the user: no folder named ~ is made."""
    import pwd

    def nobody(_):
        raise KeyError("uid not found")

    with tempfile.TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:
        patch.chdir(text)
        for name in ("HOME", "XDG_CACHE_HOME", "FAIRSPAN_DATA"):
            patch.delenv(name, raising=False)
        patch.setattr(pwd, "getpwuid", nobody)
        for home in (None, "~/data"):
            with pytest.raises(DatasetError, match=r"no home folder .*Give the full path"):
                data_files.find(data_file(), home, "fetch_table")
        assert list(Path(text).iterdir()) == []
        model = fitted()
        assert load_model(save_model(model, "model.skops")).fairness_ == model.fairness_
        assert find(fake_pooch(), Path(text) / "given").exists()


# ------------------------------------------------------------------ killed while it writes


def half_write_and_die(folder):
    """A child for each share: it writes so much of the new file, then is killed."""
    import skops.io

    from fairspan import persistence

    model, new, found = fitted(), ridge().fit(**rows(seed=5)), audited(fitted())
    targets = {"model": Path(folder) / "model.skops", "fit": Path(folder) / "fit.ckpt"}
    save_model(model, targets["model"])
    Checkpoint(targets["fit"]).save({"place": 1}, {"a": np.zeros(500)})
    whole = skops.io.dumps({"format": 1, "fairspan": "0.1.0", "model": new})
    path = Path(folder) / "audit.json"
    found.to_json(path)
    arrays = {"a": np.ones(500)}

    def die(share, write):
        def half(first, second=None, *_, **more):
            content = write()
            content = content[: int(share * len(content))]
            to = first if second is None else second
            if hasattr(to, "write_bytes"):
                to.write_bytes(content)
            else:
                to.write(content)
                to.flush()
            os.kill(os.getpid(), signal.SIGKILL)

        return half

    def save_fit():
        Checkpoint(targets["fit"]).save({"place": 2}, arrays)

    codes = []
    for share in (0.0, 0.3, 0.9, 1.0):
        for module, name, content, save in (
            (
                persistence,
                "_copy_archive",
                lambda: whole,
                lambda: save_model(new, targets["model"]),
            ),
            (np, "savez", lambda: whole, save_fit),
            (Path, "write_text", lambda: b'{"half": ', lambda: found.to_json(path)),
        ):
            child = os.fork()
            if child == 0:
                broken = die(share, content)
                if name == "write_text":
                    setattr(module, name, lambda self, *_, broken=broken, **__: broken(self))
                else:
                    setattr(module, name, broken)
                save()
                os._exit(0)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(codes))


def survive_killed_while_saving():
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        codes = json.loads(in_child("half_write_and_die", folder))
        assert set(codes) == {-signal.SIGKILL}
        X = rows()["X"]
        np.testing.assert_array_equal(
            load_model(folder / "model.skops").predict(X), fitted().predict(X)
        )
        header, arrays = Checkpoint(folder / "fit.ckpt").load()
        assert header == {"place": 1}
        assert not arrays["a"].any()
        json.loads((folder / "audit.json").read_text(encoding="utf-8"))
        halves = [one for one in folder.iterdir() if one.name.startswith(".model")]
        assert halves
        whole = (folder / "model.skops").stat().st_size
        for one in halves:
            if one.stat().st_size < 0.95 * whole:
                with pytest.raises(ValueError, match="damaged"):
                    load_model(one)
        for one in folder.glob(".fit*"):
            with pytest.raises(CheckpointError):
                Checkpoint(one).load()


def save_again_and_again(folder):
    """Until it is killed from outside."""
    models = [fitted(), ridge().fit(**rows(seed=5))]
    save_model(models[0], Path(folder) / "model.skops")
    print("ready", flush=True)
    while True:
        for model in models:
            save_model(model, Path(folder) / "model.skops")


def survive_killed_at_any_time():
    with tempfile.TemporaryDirectory() as folder:
        for pause in (0.0, 0.05, 0.17):
            child = subprocess.Popen(
                command("save_again_and_again", folder), cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            with child:
                assert child.stdout.readline() == "ready\n"
                signal.sigtimedwait([], pause)
                child.kill()
            assert isinstance(load_model(Path(folder) / "model.skops"), FairRidge)


# ------------------------------------------------------------------ downloads

PART = b"colour,count\nred,1\nblue,2\n" * 100


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def data_file():
    text = PART.upper()
    return data_files.DataFile(
        name="table.csv.gz",
        sha256=sha256(gzip.compress(text, mtime=0)),
        text_sha256=sha256(text),
        sources={"https://example.org/part.csv": sha256(PART)},
        convert=lambda parts: b"".join(parts).upper(),
    )


def fake_pooch(content=PART, pause=0.0, cache="/nonexistent/cache"):
    """A downloader that brings what it is told to, slowly perhaps."""

    def retrieve(url, known_hash, name, folder, progressbar):
        path = Path(folder) / name
        with path.open("wb") as file:
            for start in range(0, len(content), 1000):
                file.write(content[start : start + 1000])
                file.flush()
                signal.sigtimedwait([], pause) if pause else None
        return str(path)

    return SimpleNamespace(retrieve=retrieve, os_cache=lambda _: cache)


def find(pooch, folder):
    """A data file, by this downloader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_files, "require", lambda *_: pooch)
        patch.delenv("FAIRSPAN_DATA", raising=False)
        path = data_files.find(data_file(), folder, "fetch_table")
    assert data_files.read(data_file(), path) == PART.upper()
    return path


def fetch_slowly(folder):
    return str(find(fake_pooch(pause=0.05), Path(folder)))


def survive_fetching_at_once():
    """Four processes, one folder: all read the right table, and one copy is there."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text) / "new" / "home"
        with multiprocessing.get_context("spawn").Pool(4) as pool:
            asked = pool.map_async(fetch_slowly, [str(folder)] * 4, chunksize=1)
            while not asked.ready():  # under its name it is whole, at any time
                with contextlib.suppress(FileNotFoundError):
                    content = (folder / "table.csv.gz").read_bytes()
                    assert gzip.decompress(content) == PART.upper()
                asked.wait(0.01)
        assert set(asked.get()) == {str(folder / "table.csv.gz")}
        assert [one.name for one in folder.iterdir()] == ["table.csv.gz"]
        assert gzip.decompress((folder / "table.csv.gz").read_bytes()) == PART.upper()


def survive_wrong_download():
    """What came is not what was asked for, and the downloader did not notice."""
    for content in (PART[:-1], b"", b"<html>not found</html>", PART + b"x"):
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text) / "home"
            with pytest.raises(DatasetError, match="has sha256"):
                find(fake_pooch(content), folder)
            assert not folder.exists()


def survive_interrupted_download():
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text) / "home"

        def stop(*args, **kwargs):
            raise KeyboardInterrupt

        pooch = SimpleNamespace(retrieve=stop, os_cache=lambda _: text)
        with pytest.raises(KeyboardInterrupt):
            find(pooch, folder)
        assert not folder.exists()


def survive_spoiled_cache():
    """A wrong file in the cache is fetched again; a wrong one of the user's is only refused."""
    with tempfile.TemporaryDirectory() as text:
        cached = Path(text) / "table.csv.gz"
        for content in (b"", b"half", gzip.compress(b"other"), gzip.compress(PART.upper())[:-9]):
            cached.write_bytes(content)
            assert find(fake_pooch(cache=text), None) == cached
        cached.write_bytes(b"half")
        with pytest.raises(DatasetError, match="damaged or another version"):
            find(fake_pooch(), Path(text))
        assert cached.read_bytes() == b"half"


# ------------------------------------------------------------------ all of them


def command(name, folder):
    text = f"from tests.robust import test_faults; test_faults.{name}({str(folder)!r})"
    return [sys.executable, "-W", "ignore", "-c", text]


def in_child(name, folder):
    """A function of this file in a process of its own: what it printed."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        command(name, folder), cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


FAULTS = {
    **{
        f"interrupt inside {name}": lambda name=name: survive_interrupts(name)
        for name in INTERRUPTS
    },
    "second interrupt while the first is undone": survive_interrupted_restore,
    "interrupt between checkpoints": survive_interrupted_checkpoint,
    "interrupt while a file is written": survive_interrupted_files,
    "full disk": survive_full_disk,
    "full disk while a data set is stored": survive_no_space_in_download,
    "read-only folder": survive_read_only_folder,
    "no home folder": survive_no_home,
    "killed with a file half written": survive_killed_while_saving,
    "killed at any time while saving": survive_killed_at_any_time,
    "four processes fetch one data set": survive_fetching_at_once,
    "a download of something else": survive_wrong_download,
    "an interrupted download": survive_interrupted_download,
    "a spoiled cache": survive_spoiled_cache,
}
OTHERS = [name for name in FAULTS if not name.startswith(("interrupt inside", "second"))]


@posix
@pytest.mark.parametrize("name", OTHERS)
def test_a_fault_is_survived(name):
    FAULTS[name]()


def survived():
    """Names of the faults that were injected and survived, and of those that were not."""
    good, bad = [], []
    for name, inject in FAULTS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inject()
        except Exception:  # whatever it is, it was not survived
            bad.append(name)
        else:
            good.append(name)
    return good, bad


def main():
    good, bad = survived()
    print(f"faults survived: {len(good)} of {len(good) + len(bad)}")
    print("\n".join([f"  {name}" for name in good] + [f"  NOT survived: {name}" for name in bad]))


if __name__ == "__main__":
    main()
