"""The test suite itself: it runs where a newcomer runs it."""

import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.regression("make test exits 1 without the shared folder")
def test_a_file_that_skips_as_a_whole_does_not_break_the_summary(pytester, checkout, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_SHARED", str(pytester.path / "absent"))
    monkeypatch.delenv("FAIRSPAN_REQUIRE_SHARED", raising=False)
    own = checkout / "conftest.py"  # version 0.1.0 has it in tests/
    text = (own if own.exists() else checkout / "tests" / "conftest.py").read_text("utf-8")
    pytester.makeconftest(text)
    pytester.makepyfile(
        test_extra="import pytest\npytest.skip('no such extra', allow_module_level=True)",
        test_data="def test_needs_data(shared):\n    assert shared.is_dir()",
        test_plain="def test_plain():\n    assert True",
    )
    ran = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-W", "ignore")
    assert ran.ret == 0
    ran.stdout.fnmatch_lines(["shared: absent, 1 tests skip"])


@pytest.mark.slow
def test_the_wheel_contains_the_library_alone(tmp_path, checkout):
    pytest.importorskip("build")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(checkout)]
    subprocess.run(build, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(archive) as file:
        names = file.namelist()
    folders = {name.partition("/")[0] for name in names}
    # The page's chart library is part of it, with its licence.
    assert "fairspan/report/page/vendor/plotly-basic.min.js" in names
    assert any(name.endswith(".dist-info/licenses/NOTICE") for name in names)
    assert {name for name in folders if not name.endswith(".dist-info")} == {"fairspan"}


@pytest.mark.slow
@pytest.mark.regression("the sdist's own test suite cannot be collected")
def test_the_source_distribution_collects_its_own_tests(tmp_path, checkout):
    pytest.importorskip("build")
    build = [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(checkout)]
    subprocess.run(build, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (root,) = (path for path in tmp_path.iterdir() if path.is_dir())
    paths = os.pathsep.join([str(root / "src"), str(root / "lab" / "src")])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert (root / "NOTICE").is_file()
    assert " error" not in ran.stdout.splitlines()[-1]
    assert archive.stat().st_size < 12 * 2**20
