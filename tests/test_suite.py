"""The test suite itself: it runs where a newcomer runs it."""

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.regression("make test exits 1 without the shared folder")
def test_a_file_that_skips_as_a_whole_does_not_break_the_summary(pytester, checkout, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_SHARED", str(pytester.path / "absent"))
    pytester.makeconftest((checkout / "tests" / "conftest.py").read_text())
    pytester.makepyfile(
        test_extra="import pytest\npytest.skip('no such extra', allow_module_level=True)",
        test_data="def test_needs_data(shared):\n    assert shared.is_dir()",
        test_plain="def test_plain():\n    assert True",
    )
    ran = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-W", "ignore")
    assert ran.ret == 0
    ran.stdout.fnmatch_lines(["shared: absent, 1 tests skip"])
