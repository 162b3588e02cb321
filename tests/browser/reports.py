"""Small tables, and the reports that are made of them."""

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# Names that are harmless to nobody who forgets to escape them.
SCRIPT = "<script>window.stolen = 1</script>"
ENDING = "</script><script>window.stolen = 2</script>"
PICTURE = "<img src=x onerror='window.stolen = 3'>"
LINK = '<a href="https://example.org/">income</a>'
FORMULA = "=cmd()|' /C calc'!A0"
BOLD = "<b>debt</b>"
TURNED = "abc\u202edef\x1b[31m"
SMALL = "few"
PLOTLY = "<b>bold</b> %{x} $\\alpha$ &lt;i&gt;"


@dataclass(frozen=True)
class Example:
    """A report as a file, and the numbers that it must show; the table is a CSV file beside it."""

    path: Path
    study: dict[str, Any]


def _explore(path: Path, table: pd.DataFrame, **options: Any) -> Example:
    from fairspan.exceptions import FairspanWarning
    from fairspan.report import explore

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)  # the page shows them
        report = explore(
            table,
            n_points=11,
            n_boot=40,
            audit_parts=["scores", "decisions"],
            random_state=0,
            **options,
        )
    report.to_html(path)
    if "/" not in options["name"]:  # the code on the page reads the file of this name
        table.to_csv(path.parent / options["name"], index=False)
    return Example(path, read_study(path))


def read_study(path: Path) -> dict[str, Any]:
    """The study that a page carries."""
    from tests.support.report_data import whole_study

    return whole_study(json.loads(_carried(path.read_text(encoding="utf-8"))[1]))


def with_study(example: Example, study: dict[str, Any], path: Path) -> Path:
    """The same page about another study."""
    from fairspan.report.page import for_page, script_json

    before, _, after = _carried(example.path.read_text(encoding="utf-8"))
    path.write_text(before + script_json(for_page(study)) + after, encoding="utf-8")
    return path


def _carried(page: str) -> tuple[str, str, str]:
    found = re.search(r'(<script type="application/json" id="study">)(.*?)(</script>)', page, re.S)
    assert found is not None
    return page[: found.end(1)], found[2], page[found.start(3) :]


def _people(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    group = rng.choice(["north", "south", "west"], n, p=[0.4, 0.35, 0.25])
    lift = np.where(group == "north", 1.0, 0.0)
    income = rng.normal(size=n) + lift
    table = pd.DataFrame(
        {
            "income": income.round(3),
            "debt": rng.normal(size=n).round(3),
            "job": rng.choice(["clerk", "driver", "nurse"], n),
            "age": rng.integers(20, 70, n),
            "sex": rng.choice(["f", "m"], n),
            "group": group,
        }
    )
    return table, income, lift


def loans(path: Path, **options: Any) -> Example:
    """Two classes, two attributes, gaps in the data."""
    rng = np.random.default_rng(1)
    table, income, lift = _people(rng, 480)
    table["repaid"] = np.where(income + lift + rng.normal(size=480) > 0.5, "yes", "no")
    table.loc[rng.choice(480, 12, replace=False), "income"] = np.nan
    return _explore(
        path,
        table,
        target="repaid",
        sensitive_features=["group", "sex"],
        pos_label="yes",
        features=["income", "debt", "job", "age"],
        name="loans.csv",
        **options,
    )


def numbers(path: Path) -> Example:
    """A number to predict, a continuous attribute beside a categorical one."""
    rng = np.random.default_rng(2)
    table, income, lift = _people(rng, 400)
    table["pay"] = (
        100 + 20 * income + 10 * lift + 0.5 * table["age"] + 10 * rng.normal(size=400)
    ).round(2)
    return _explore(
        path,
        table,
        target="pay",
        sensitive_features=["sex", "age"],
        name="pay.csv",
        features=["income", "debt", "job"],
        sensitive_kind={"age": "continuous"},
    )


def hostile(path: Path) -> Example:
    """Three classes, strata, and names that attack whatever shows them."""
    rng = np.random.default_rng(3)
    table, income, _ = _people(rng, 900)
    score = income + rng.normal(size=900)
    table[PLOTLY] = np.select([score < 0, score < 1], [PICTURE, "approve"], TURNED)
    table["group"] = table["group"].map({"north": SCRIPT, "south": FORMULA, "west": TURNED})
    table["sex"] = table["sex"].map({"f": LINK, "m": "m"})
    table = table.rename(
        columns={"group": ENDING, "income": LINK, "sex": PICTURE, "job": SCRIPT, "debt": BOLD}
    )
    return _explore(
        path,
        table,
        target=PLOTLY,
        sensitive_features=[ENDING],
        control_features=[PICTURE],
        criterion="conditional_statistical_parity",
        name=f"{ENDING}{TURNED}.csv",
    )


def small_group(path: Path, **options: Any) -> Example:
    """A group of a dozen rows, few of them held out; some rows weigh nothing."""
    rng = np.random.default_rng(4)
    table, income, _ = _people(rng, 480)
    table["repaid"] = np.where(income + rng.normal(size=480) > 0.5, "yes", "no")
    table["weight"] = rng.integers(0, 3, 480)
    table.loc[:11, "group"] = SMALL
    return _explore(
        path,
        table,
        target="repaid",
        sensitive_features=["group", "age"],
        features=["income", "debt"],
        sensitive_kind={"age": "continuous"},
        name="small.csv",
        **options,
    )


def inherited_names(path: Path) -> Example:
    """Protected columns named as parts of every JavaScript object."""
    rng = np.random.default_rng(5)
    table, income, lift = _people(rng, 480)
    table["repaid"] = np.where(income + lift + rng.normal(size=480) > 0.5, "yes", "no")
    names = {"group": "constructor", "sex": "__proto__", "age": "toString"}
    return _explore(
        path,
        table.rename(columns=names),
        target="repaid",
        sensitive_features=[*names.values()],
        features=["income", "debt", "job"],
        name="names.csv",
    )


def several_classes(path: Path, **options: Any) -> Example:
    """Three classes."""
    rng = np.random.default_rng(6)
    table, income, _ = _people(rng, 600)
    score = income + rng.normal(size=600)
    table["grade"] = np.select([score < 0, score < 1], ["low", "mid"], "top")
    return _explore(
        path,
        table,
        target="grade",
        sensitive_features=["sex"],
        features=["income", "debt"],
        name="grades.csv",
        **options,
    )


EXAMPLES: dict[str, Callable[[Path], Example]] = {
    "loans": loans,
    "numbers": numbers,
    "hostile": hostile,
}
