"""Pictures of the explorer for the documentation: ``python -m tools.explorer_screenshots``.

Makes reports with ``fairspan explore``, opens them in the machine's Chromium, and writes what stands above
the charts to ``docs/figures``. Of loans: at three places of the slider on a laptop, in the dark, down to
the verdicts on a phone, and the page to sign as it is printed. Of diabetes: with the number as the target,
and with the number cut into three classes.
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

import numpy as np

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Width of A4 without margins.
PAPER = 711
# Name of the picture: width of the window, pixels per point, place of the slider, media, last element.
SHOTS: dict[str, tuple[int, float, float, str, str]] = {
    "explorer-0": (1280, 1, 0.0, "light", "glance"),
    "explorer-50": (1280, 1, 0.5, "light", "glance"),
    "explorer-100": (1280, 1, 1.0, "light", "glance"),
    "explorer-phone": (390, 1.5, 0.5, "light", "verdicts"),
    "explorer-dark": (1280, 1, 0.5, "dark", "verdict"),
    "explorer-print": (PAPER, 1.5, 0.5, "print", "verdict"),
}
# The same for the reports of a number and of three classes.
MORE_SHOTS: dict[str, tuple[int, float, float, str, str]] = {
    "number": (1280, 1, 0.5, "light", "glance"),
    "classes": (1280, 1, 0.5, "light", "glance"),
}
N_COLOURS = 128
MOST_BYTES = 200_000
# Charts out of sight are drawn once the slider has rested.
REST_MS = 600


def make_report(folder: Path) -> Path:
    """The page of loans, by the command that the documentation names."""
    options = ["--positive", "1", "--limit", "ratio=0.8,gap=0.05"]
    return _explore(folder, "report.html", "loans", *options)


def make_more(folder: Path) -> dict[str, Path]:
    """Pages of a number, and of the same number in three classes."""
    from fairspan.datasets import load_diabetes

    data = load_diabetes()
    table = data.data.assign(progression=data.target, **data.sensitive_features)
    cuts = table["progression"].quantile([1 / 3, 2 / 3])
    words = np.array(["low", "middle", "high"])
    table["progression"] = words[np.searchsorted(cuts, table["progression"])]
    table.to_csv(folder / "levels.csv", index=False)
    options = ["--target", "progression", "--protected", "sex", "--protected", "age"]
    return {
        "number": _explore(folder, "number.html", "diabetes"),
        "classes": _explore(folder, "classes.html", "levels.csv", *options),
    }


def _explore(folder: Path, out: str, data: str, *options: str) -> Path:
    command = [sys.executable, "-m", "fairspan", "explore", data, "--out", out, *options]
    subprocess.run([*command, "--date", "2026-01-01"], cwd=folder, check=True)
    return folder / out


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
        more = make_more(Path(folder))
        browser = started.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        shots = [(name, url, shot) for name, shot in SHOTS.items()]
        shots += [(f"explorer-{n}", more[n].as_uri(), shot) for n, shot in MORE_SHOTS.items()]
        for name, address, shot in shots:
            path = FIGURES / f"{name}.png"
            size = shrink(shoot(browser, address, *shot), path)
            print(f"{path.relative_to(FIGURES.parents[1])}: {size / 1000:.0f} kB")
            if size > MOST_BYTES:
                raise SystemExit(f"{path.name} has {size:,} bytes, over {MOST_BYTES:,}.")
        browser.close()


if __name__ == "__main__":
    main()
