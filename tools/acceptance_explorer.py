"""Limits on the explorer: the demo in a browser, a newcomer's commands, time and memory."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks import explorer

from tools.table import ROOT, Measurement, at_least, at_most, suite

DIALS = (0.0, 0.5, 1.0)
# The page holds six digits.
DIGITS = 2e-6
BROWSER_TESTS = [f"tests/browser/test_explorer{end}.py" for end in ("", "_numbers", "_scores")]
ACCESS_TESTS = "tests/browser/test_explorer_access.py"


def measurements() -> Iterator[Measurement]:
    """All rows; ten minutes on two cores, mostly for an environment and the browser tests."""
    yield from demo_rows()
    yield from stranger_rows()
    yield from cost_rows()
    yield from access_rows()


# ------------------------------------------------------------------ the demo, from nothing


@dataclass(frozen=True)
class Seen:
    """Values on the page at one position of the slider."""

    error: float
    extra: float
    rates: list[float]  # of those selected, by race
    snippet: str
    picture: str  # a fingerprint


def demo_rows() -> Iterator[Measurement]:
    """Clone the repository, run `make demo`, open the page and move the slider."""
    with TemporaryDirectory() as folder:
        clone = Path(folder) / "fairspan"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        run = subprocess.run(
            ["make", "demo"], cwd=clone, capture_output=True, text=True, check=False
        )
        print(*(f"    {line}" for line in run.stdout.strip().splitlines()[-8:]), sep="\n")
        yield at_most("make demo in a fresh clone: exit status", run.returncode, 0)
        page = clone / "demo-output" / "report.html"
        told = run.stdout.strip().splitlines()[-1].endswith(page.as_uri())
        yield at_least("make demo ends by saying where to open the report", float(told), 1)
        seen, troubles = look(page)
    yield at_least("positions 0, 0.5 and 1 look different", len({s.picture for s in seen}), 3)
    yield at_most("lines on the console, requests", len(troubles), 0)
    unfair: float | None = None
    for fairness, one in zip(DIALS, seen, strict=True):
        error, rates = trained(one.snippet)
        unfair = error if unfair is None else unfair
        where = f"fairness {fairness:g}, page against library:"
        yield at_most(f"{where} error", abs(one.error - error), DIGITS)
        yield at_most(f"{where} extra error", abs(one.extra - (error - unfair)), DIGITS)
        worst = np.abs(np.array(one.rates) - rates).max()
        yield at_most(f"{where} selection rates", float(worst), DIGITS)
    steps = {round(s.error, 6) for s in seen} | {tuple(s.rates) for s in seen}
    yield at_least("numbers that differ between the positions", len(steps), 4)


def look(page: Path) -> tuple[list[Seen], list[str]]:
    """Open the page in headless Chromium at three slider positions; collect its console errors."""
    from playwright.sync_api import sync_playwright

    troubles: list[str] = []
    with sync_playwright() as started:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.on("console", lambda line: troubles.append(line.text))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("request", lambda r: r.url == page.as_uri() or troubles.append(r.url))
        tab.goto(page.as_uri())
        seen = [_seen(tab, fairness) for fairness in DIALS]
        browser.close()
    return seen, troubles


def _seen(tab: Any, fairness: float) -> Seen:
    last = int(tab.get_attribute("#slider", "max"))
    tab.locator("#slider").fill(str(round(fairness * last)))
    tab.wait_for_timeout(500)  # charts out of sight are drawn a little later

    def number(metric: str) -> float:
        return float(tab.get_attribute(f"#tiles [data-metric='{metric}']", "data-value"))

    rows = tab.locator("#view-rates details tbody tr").evaluate_all(
        "rows => rows.map(r => Number(r.querySelectorAll('[data-value]')[1].dataset.value))"
    )
    snippet = tab.locator("#view-snippet pre").text_content()
    picture = hashlib.sha256(tab.screenshot()).hexdigest()
    return Seen(number("error"), number("error_extra"), rows, snippet, picture)


def trained(snippet: str) -> tuple[float, np.ndarray]:
    """Run the code shown on the page; compute error and selection rates by race on held-out rows."""
    ran: dict[str, Any] = {}
    exec(compile(snippet, "snippet", "exec"), ran)
    held = ran["table"][ran["held_out"]]
    said, came = np.asarray(ran["predictions"]), held["approve"].to_numpy()
    race = held["race"].to_numpy()
    rates = [np.mean(said[race == group] == 1) for group in np.unique(race)]
    return float(np.mean(said != came)), np.array(rates)


# ------------------------------------------------------------------ the rest


def stranger_rows() -> Iterator[Measurement]:
    """Two commands lead from a CSV file to predictions; errors are one line."""
    tests = "tests/test_cli_explore.py"
    path = "from_a_csv or numbers_of_the_report or into_a_pipe"
    yield from suite("a stranger's path", [tests, "-k", path], 3)
    yield from suite("wrong invocations, one line and exit code 2", [tests, "-k", "wrong"], 12)


def cost_rows() -> Iterator[Measurement]:
    """A table of 50,000 rows, from the CSV to the page."""
    cost = explorer.measure()
    print(f"    fit {cost.fit:.1f} s, audit {cost.audit:.1f} s, all {cost.whole:.1f} s of CPU")
    yield at_most("50,000 rows: report by the fit and audit in it", cost.ratio, 1.5)
    yield at_most("50,000 rows: page, MB", cost.size / 1e6, 3.0)


def access_rows() -> Iterator[Measurement]:
    """Browser tests by topic; none may be skipped."""
    yield from suite("axe-core, no serious violation", [ACCESS_TESTS, "-k", "axe"], 9)
    keys = "tab_reaches or keys_move or skip_link or focus"
    yield from suite("keyboard reaches and moves everything", [ACCESS_TESTS, "-k", keys], 6)
    others = f"not axe and not ({keys})"
    yield from suite("phone, paper, readers, hostile names", [ACCESS_TESTS, "-k", others], 10)
    yield from suite("views follow the slider with right numbers", BROWSER_TESTS, 30)
