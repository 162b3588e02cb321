"""Files that the library writes: what they replace, whose permissions they get, what stays."""

import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from fairspan import _system as _files
from fairspan import audit, load_model, save_model
from tests.support.small import fitted

pytest.importorskip("skops")

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and pipes of POSIX")
defect = pytest.mark.regression(
    "save_model and to_json replace device nodes, FIFOs and symlinks and widen file modes"
)


def found():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 60)
    return audit(
        rng.normal(size=60),
        sensitive_features={"s": s},
        parts=["scores"],
        n_boot=20,
        random_state=0,
    )


def write_model(path):
    save_model(fitted(), path)


def write_json(path):
    found().to_json(path)


def write_markdown(path):
    found().to_markdown(path)


writers = pytest.mark.parametrize("write", [write_model, write_json, write_markdown])


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """The usual umask, whatever the tests were started with."""
    before = os.umask(0o022)
    yield 0o022
    os.umask(before)


@posix
@writers
@defect
def test_a_private_file_stays_private(write, tmp_path, umask):
    path = tmp_path / "out"
    path.touch(0o600)
    write(path)
    assert mode_of(path) == 0o600
    assert path.stat().st_size > 0


@posix
@writers
@defect
def test_a_symbolic_link_stays_and_its_target_is_written(write, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    write(link)
    assert link.is_symlink()
    assert target.stat().st_size > 0
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["target"]


@posix
@writers
@defect
def test_a_pipe_stays_and_carries_the_content(write, tmp_path):
    path, content = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: content.append(path.read_bytes()), daemon=True)
    reader.start()
    write(path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    reader.join(timeout=10)
    assert content[0]
    assert os.listdir(tmp_path) == ["pipe"]


@posix
@writers
@defect
def test_a_device_stays(write, tmp_path):
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"")
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    write(path)
    assert stat.S_ISCHR(path.stat().st_mode)


@posix
@writers
def test_a_new_file_has_the_permissions_of_the_umask(write, tmp_path, umask):
    path = tmp_path / "out"
    write(path)
    assert mode_of(path) == 0o666 & ~umask


@posix
def test_a_file_is_private_while_it_is_written(tmp_path, umask):
    path = tmp_path / "out"
    path.touch(0o640)
    with _files.atomic_write(path) as part:
        assert mode_of(part) == 0o600
        part.write_text("new")
    assert (mode_of(path), path.read_text()) == (0o640, "new")


@posix
def test_rights_of_a_group_that_cannot_be_kept_are_taken_away(tmp_path, umask, monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "out"
    path.touch(0o664)
    path.chmod(0o664)
    monkeypatch.setattr(os, "chown", refused)
    with _files.atomic_write(path) as part:
        part.write_text("new")
    assert mode_of(path) == 0o604


@posix
def test_a_link_that_leads_nowhere_is_filled(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    write_json(link)
    assert link.is_symlink()
    assert (tmp_path / "target").is_file()


def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")

    def write_half():
        with _files.atomic_write(path) as part:
            part.write_text("new")
            raise RuntimeError("half done")

    with pytest.raises(RuntimeError, match="half"):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent.out'$"):
        write_json(tmp_path / "absent" / "out")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        write_json(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_open_elsewhere_is_named(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Access is denied")

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(PermissionError, match=r"out could not be replaced .* Close it"):
        write_json(tmp_path / "out")
    assert os.listdir(tmp_path) == []


@posix
def test_a_socket_is_refused(tmp_path, monkeypatch):
    import socket

    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(OSError, match="socket is a socket, not a file"):
            write_json("socket")


@posix
def test_standard_output_is_written_to_and_not_replaced(tmp_path):
    out = tmp_path / "out"
    script = (
        "import sys\nfrom fairspan._system import atomic_write\nprint('before', flush=True)\n"
        "with atomic_write('/dev/stdout') as part:\n    part.write_text('inside\\n')\n"
        "print('after')\n"
    )
    with out.open("w") as stream:
        subprocess.run([sys.executable, "-c", script], stdout=stream, check=True)
    assert out.read_text() == "before\ninside\nafter\n"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "before\ninside\nafter\n"
    assert os.path.islink("/dev/stdout")


@posix
def test_what_is_written_in_place():
    assert _files.is_stream("/dev/null")
    assert not _files.is_stream("no such file")
    assert not _files.is_stream(__file__)


@posix
def test_a_model_can_be_written_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to("model.skops")
    save_model(fitted(), tmp_path / "link")
    assert load_model(tmp_path / "model.skops").fairness == 1.0
