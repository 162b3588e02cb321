"""A gap in the coverage has a reason, or it is reported; a reason fits the source that is there."""

import textwrap

import pytest

pytest.importorskip("coverage")

from tools.coverage_gaps import ROOT, File, Reason, explained, judge, read_reasons, unexplained

CODE = textwrap.dedent("""\
    def f(x):
        if x > 0:
            y = 1
            return y
        try:
            return g(x)
        except OSError:
            return None


    def g(x):
        match x:
            case 1:
                return "a"
            case _:
                return "b"
""")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if x > 0:", {2, 3, 4}),
        ("y = 1", {3}),
        ("except OSError:", {7, 8}),
        ("def g(x):", set(range(11, 17))),
        ("case 1:", {13, 14}),
        ("not there", set()),
    ],
)
def test_a_reason_is_for_a_statement_and_all_inside_it(text, expected):
    inside, found = explained(CODE, [text])
    assert inside == expected
    assert found == ({text} if expected else set())


def test_a_jump_to_an_explained_line_needs_no_reason_of_its_own():
    file = File("f.py", 9, 4, missing_lines=(3, 4), missing_branches=((2, 3),))
    assert unexplained(file, set()) == (2, 3, 4)
    assert unexplained(file, {3}) == (4,)
    assert unexplained(file, {3, 4}) == ()


def test_a_jump_over_lines_that_run_needs_one():
    """Where a body always runs, the way past it has no line that could speak for it."""
    file = File("f.py", 9, 4, missing_lines=(), missing_branches=((2, 5),))
    assert unexplained(file, {5}) == (2,)
    assert unexplained(file, {2, 3, 4}) == ()


def test_percentages_are_of_all_files_together():
    files = (
        File(
            "src/fairspan/method/codes.py",
            90,
            20,
            missing_lines=(1,),
            missing_branches=((2, 3), (2, 4)),
        ),
        File("src/fairspan/method/pilot.py", 10, 0, missing_lines=(), missing_branches=()),
    )
    found = judge(files, [Reason("src/fairspan/method/sdr.py", "x = 1", "")], iter(["old"]))
    assert (found.line, found.branch) == (99.0, 90.0)
    assert found.both == pytest.approx(100 * 117 / 120)
    assert found.missing == found.unexplained == {"src/fairspan/method/codes.py": (1, 2)}
    assert found.stale == ("old", "src/fairspan/method/sdr.py does not exist")


def test_a_reason_for_a_line_that_is_gone_is_out_of_date():
    (old,) = judge(
        (File("src/fairspan/method/codes.py", 1, 0, (), ()),),
        [Reason("src/fairspan/method/codes.py", "?", "")],
        iter([]),
    ).stale
    assert old == "src/fairspan/method/codes.py has no statement '?'"


@pytest.mark.parametrize("reason", read_reasons(), ids=lambda r: f"{r.file}: {r.text}")
def test_every_reason_fits_the_source(reason):
    source = (ROOT / reason.file).read_text(encoding="utf-8")
    assert explained(source, [reason.text])[1] == {reason.text}
    assert len(reason.reason.split()) >= 4
