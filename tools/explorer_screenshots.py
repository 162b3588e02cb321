"""Pictures of the explorer for the documentation: ``python -m tools.explorer_screenshots``.

Makes the report of ``fairspan explore loans``, opens it in the machine's Chromium, and writes what
stands above the charts to ``docs/figures``: at three places of the slider on a laptop, in the dark, down to
the verdicts on a phone, and the page to sign as it is printed.
``FAIRSPAN_BROWSER`` names another browser.
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
# Width of A4 without margins.
PAPER = 688
# Name of the picture: width of the window, pixels per point, place of the slider, media, last element.
SHOTS: dict[str, tuple[int, float, float, str, str]] = {
    "explorer-0": (1280, 1, 0.0, "light", "glance"),
    "explorer-50": (1280, 1, 0.5, "light", "glance"),
    "explorer-100": (1280, 1, 1.0, "light", "glance"),
    "explorer-phone": (390, 1.5, 0.5, "light", "verdicts"),
    "explorer-dark": (1280, 1, 0.5, "dark", "verdict"),
    "explorer-print": (PAPER, 1.5, 0.5, "print", "verdict"),
}
N_COLOURS = 128
MOST_BYTES = 180_000
# Charts out of sight are drawn once the slider has rested.
REST_MS = 600


def make_report(folder: Path) -> Path:
    """The page, by the command that the documentation names."""
    path = folder / "report.html"
    command = [sys.executable, "-m", "fairspan", "explore", "loans"]
    command += ["--out", path.name, "--positive", "1", "--limit", "ratio=0.8,gap=0.05"]
    command += ["--date", "2026-01-01"]
    subprocess.run(command, cwd=folder, check=True)
    return path


def find_browser() -> str:
    """Path of the machine's own; nothing is downloaded."""
    wanted = os.environ.get("FAIRSPAN_BROWSER")
    for one in [wanted] if wanted else BROWSERS:
        if found := shutil.which(one):
            return found
    raise SystemExit("No browser: install chromium or set FAIRSPAN_BROWSER.")


def shoot(
    browser: Any, url: str, width: int, scale: float, fairness: float, media: str, last: str
) -> bytes:
    """The top of the page down to the end of the element ``last``."""
    context = browser.new_context(
        viewport={"width": width, "height": 4000},
        device_scale_factor=scale,
        color_scheme="dark" if media == "dark" else "light",
    )
    page = context.new_page()
    page.goto(f"{url}#fairness={fairness:g}")
    if media == "print":
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(REST_MS)
    bottom = page.evaluate(
        "last => document.getElementById(last).getBoundingClientRect().bottom", last
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
        for name, shot in SHOTS.items():
            path = FIGURES / f"{name}.png"
            size = shrink(shoot(browser, url, *shot), path)
            print(f"{path.relative_to(FIGURES.parents[1])}: {size / 1000:.0f} kB")
            if size > MOST_BYTES:
                raise SystemExit(f"{path.name} has {size:,} bytes, over {MOST_BYTES:,}.")
        browser.close()


if __name__ == "__main__":
    main()
