"""Displays look as they did when somebody last looked (``python -m tests.support.plotting_pictures``)."""

import shutil

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from tests.support.plotting_pictures import FOLDER, MADE_WITH, PICTURES, draw  # noqa: E402

# Root mean square of the differences of pixels, 0 to 255. Without text the pictures of matplotlib 3.9
# and 3.11 are the same; a marker of another shape makes 1.7, a lost line 4 and more, and a curve
# that is moved by a fiftieth of its axis 2.8 and more.
TOLERANCE = 0.9
OLDER = tuple(map(int, matplotlib.__version__.split(".")[:2])) < MADE_WITH
WHY = f"the pictures were made with matplotlib {MADE_WITH[0]}.{MADE_WITH[1]}, this one is older"


def difference(name, folder):
    """What the comparison says of a picture; None if it is as before."""
    from matplotlib.testing.compare import compare_images

    found, expected = folder / f"{name}.png", folder / f"{name}-expected.png"
    draw(name, found)
    # Beside the copy, as the comparison writes the difference there.
    shutil.copy(FOLDER / f"{name}.png", expected)
    return compare_images(str(expected), str(found), tol=TOLERANCE)


def move_a_curve(display):
    """By a fiftieth of the axis: the first interval, density or curve that has a name."""
    ax = display.ax_
    left, right, bottom, top = ax.axis()
    densities = [one for one in ax.patches if hasattr(one, "set_data")]
    if ax.containers:
        points = ax.containers[0].lines[0]
        points.set_data(points.get_xdata() + 0.02 * (right - left), points.get_ydata())
    elif densities:
        height, edges, _ = densities[0].get_data()
        densities[0].set_data(height + 0.02 * (top - bottom), edges)
    else:
        curve = next(one for one in ax.get_lines() if not one.get_label().startswith("_"))
        curve.set_ydata(np.asarray(curve.get_ydata()) + 0.02 * (top - bottom))
    return display


@pytest.mark.skipif(OLDER, reason=WHY)
@pytest.mark.parametrize("name", PICTURES)
def test_a_display_looks_as_before(name, tmp_path):
    assert difference(name, tmp_path) is None


@pytest.mark.skipif(OLDER, reason=WHY)
@pytest.mark.parametrize("name", PICTURES)
def test_a_curve_that_moves_is_seen(name, tmp_path, monkeypatch):
    make = PICTURES[name]
    monkeypatch.setitem(PICTURES, name, lambda: move_a_curve(make()))
    assert "RMS Value" in difference(name, tmp_path)


@pytest.mark.parametrize("name", PICTURES)
def test_a_display_reads_as_before(name, tmp_path):
    said = draw(name, tmp_path / f"{name}.png")
    assert list(map(repr, said)) == (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()


def test_all_pictures_are_there_and_small():
    files = sorted(path.stem for path in FOLDER.glob("*.png"))
    assert files == sorted(PICTURES)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000
