"""Pictures of the explorer for the documentation: ``python -m tools.explorer_screenshots``.

Makes the report of ``fairspan explore loans``, opens it in the machine's Chromium, and writes what
stands above the fold, and the first two charts, to ``docs/figures``: at three places of the slider on a
laptop, and on a phone. ``FAIRSPAN_BROWSER`` names another browser.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Name of the picture: width of the window, pixels per point, place of the slider.
SHOTS = {
    "explorer-0": (1280, 1, 0.0),
    "explorer-50": (1280, 1, 0.5),
    "explorer-100": (1280, 1, 1.0),
    "explorer-phone": (390, 1.5, 0.5),
}
N_COLOURS = 128
MOST_BYTES = 150_000
# Charts out of sight are drawn once the slider has rested.
REST_MS = 600


def make_report(folder: Path) -> Path:
    """The page, by the command that the documentation names."""
    path = folder / "report.html"
    command = [sys.executable, "-m", "fairspan", "explore", "loans", "--out", path.name]
    subprocess.run(command, cwd=folder, check=True)
    return path


def find_browser() -> str:
    """Path of the machine's own; nothing is downloaded."""
    wanted = os.environ.get("FAIRSPAN_BROWSER")
    for one in [wanted] if wanted else BROWSERS:
        if found := shutil.which(one):
            return found
    raise SystemExit("No browser: install chromium or set FAIRSPAN_BROWSER.")


def shoot(browser: Any, url: str, width: int, scale: float, fairness: float) -> bytes:
    """The top of the page down to the end of its first chart."""
    context = browser.new_context(
        viewport={"width": width, "height": 2400}, device_scale_factor=scale
    )
    page = context.new_page()
    page.goto(f"{url}#fairness={fairness:g}")
    page.wait_for_timeout(REST_MS)
    bottom = page.evaluate(
        "document.getElementById('view-tradeoff').getBoundingClientRect().bottom"
    )
    clip = {"x": 0, "y": 0, "width": width, "height": bottom + 16}
    shot: bytes = page.screenshot(clip=clip)
    context.close()
    return shot


def shrink(shot: bytes, path: Path) -> int:
    """Write it with few colours, which lines and letters do not miss."""
    from PIL import Image

    image = Image.open(io.BytesIO(shot)).convert("RGB")
    # By coverage, not by number of pixels: thin lines keep their colours.
    small = image.quantize(N_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    return path.stat().st_size


def main() -> None:
    """Write all pictures, and say how large they are."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        url = make_report(Path(folder)).as_uri()
        browser = started.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for name, (width, scale, fairness) in SHOTS.items():
            path = FIGURES / f"{name}.png"
            size = shrink(shoot(browser, url, width, scale, fairness), path)
            print(f"{path.relative_to(FIGURES.parents[1])}: {size / 1000:.0f} kB")
            if size > MOST_BYTES:
                raise SystemExit(f"{path.name} has {size:,} bytes, over {MOST_BYTES:,}.")
        browser.close()


if __name__ == "__main__":
    main()
