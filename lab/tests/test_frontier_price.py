"""Prices of parity from rows made by hand: choice, pairing, areas, the page, the limits."""

import csv
import math
import re

import numpy as np
import pytest

from fairspan_lab.frontier._paired import draw, paired, paired_table, partner
from fairspan_lab.frontier._price import (
    AWARE,
    BLIND,
    LIMITS,
    OURS,
    SETS,
    TABLES,
    Runs,
    choose,
    price_table,
    worst,
)
from fairspan_lab.frontier._problems import PROBLEMS
from fairspan_lab.frontier._summary import (
    fit_time,
    hypervolume,
    hypervolume_table,
    over_correction,
)
from fairspan_lab.frontier._tables import read_tables, tabulate, write_tables

CLASSES = ("Adult", "COMPAS", "COMPAS (paper's columns)", "Health", "Happiness")
SEVERAL = {"Health": ("sex", "age"), "Happiness": ("female", "black")}
NUMBERS = {
    "Communities": ("race", "origin"), "NLSY79": ("gender", "age"), "Law school": ("race", "age")
}  # fmt: skip
NOT_FOR_NUMBERS = ("fairspan-decisions", "linear-ferm", "ferm", "laftr-gp", "threshold",
                   "eg-logistic", "eg-psi", "eg-boosting", "linear-post", "linear-post-logistic",
                   "fairret", "fairspan-rule", "fairspan-rule-boosting", "fairspan-rule-logistic",
                   "fairspan-rule-promise")  # fmt: skip
FOR_NUMBERS = ("barycentre",)
ONE_ATTRIBUTE = ("linear-ferm", "ferm", "laftr-gp")
NOT_BY_CRITERION = ("gp", "boosting", "hsic", "ncfr", "ncfr-rff", "correlation-remover",
                    "linear-ferm", "ferm", "ktopt", "leace", "barycentre")  # fmt: skip


def make_row(index=0, *, sp=0.1, error=0.2, attributes=("sex",), classes=True, **other):
    """A row of the benchmark; `sp` is one number for all attributes and measures, or one by part."""
    row = {
        "data": "Adult", "split": 0, "method": "fairspan", "criterion": "sp", "index": index,
        "value": None, "fit_seconds": 1.0, "n_fit": 4000, "n_validation": 2000, "n_test": 10000,
    }  # fmt: skip
    for part in ("validation", "test"):
        row[f"{part}_error"] = error[part] if isinstance(error, dict) else error
        parity = sp[part] if isinstance(sp, dict) else sp
        row |= {f"{part}_{name}": parity if classes else None for name in ("dp", "eod", "ir")}
        row[f"{part}_ks"] = parity
        for name in attributes:
            for measure in ("sp", "ratio", *(("eop", "eo") if classes else ())):
                row[f"{part}_{measure}[{name}]"] = parity
    return row | other


def make_curve(parities, errors, **other):
    pairs = zip(parities, errors, strict=True)
    return [make_row(i, sp=sp, error=error, **other) for i, (sp, error) in enumerate(pairs)]


NUMBERS_ONLY = ("fairspan-correlation", "fairspan-limits", "fairspan-aware-correlation")
# The later, the dearer.
VARIANTS = ("fairspan-limits", "fairspan-past", "fairspan-aware-correlation")
RANKS = {m: k for k, m in enumerate(m for m in (*OURS, *BLIND, *AWARE) if m not in VARIANTS)}


def every_row(n_splits=3, n_points=5, seed=0, price=None, sets=(*CLASSES, *NUMBERS)):
    """All data sets and methods; errors climb along each dial as the parity measure falls."""
    rng = np.random.default_rng(seed)
    price = price or {}
    out = []
    for data in sets:
        classes = data in CLASSES
        start = 0.24 if classes else 0.5
        for split in range(n_splits):
            hard = rng.normal(0.0, 0.004)
            for method in (*OURS, *BLIND, *AWARE):
                if method in ((*NUMBERS_ONLY, *FOR_NUMBERS) if classes else NOT_FOR_NUMBERS):
                    continue
                if data in SEVERAL and method in ONE_ATTRIBUTE:
                    continue
                k = RANKS.get(method, 1)
                criteria = ("sp", "eop", "eo") if classes else ("sp",)
                for criterion in ("none",) if method in NOT_BY_CRITERION else criteria:
                    cost = price.get(method, 0.01 + 0.004 * k)
                    one = method in (
                        "gp",
                        "boosting",
                        "linear-ferm",
                        "correlation-remover",
                        "leace",
                    )
                    dial = np.linspace(0.0, 1.0, 1 if one else n_points)
                    floor = 0.005 + (0.05 if method in ("ferm", "hsic") else 0.0)
                    shift = 0.002 * (k % 5) * (method != "fairspan")
                    parity = 0.3 * (1.0 - dial) + floor + 0.002 * rng.random(len(dial))
                    error = start + hard + shift + cost * dial**2 + rng.normal(0, 0.001)
                    for i, t in enumerate(dial):
                        out.append(make_row(
                            i, sp=float(parity[i]), error=float(error[i]), classes=classes,
                            attributes=(NUMBERS | SEVERAL).get(data, ("sex",)), data=data, split=split,
                            method=method, criterion=criterion, value=None if one else float(t),
                            fit_seconds=40.0 if method.startswith("eg-") else 2.0,
                        ))  # fmt: skip
    return out


# --- the choice ---------------------------------------------------------------------------------


def test_the_lowest_error_within_the_limit_is_chosen():
    curve = make_curve([0.3, 0.05, 0.02, 0.01], [0.10, 0.12, 0.13, 0.11])
    found = choose(curve, "sp", 0.05)
    assert (found.row["index"], found.met, found.measure) == (3, True, 0.01)
    assert choose(curve, "sp", 0.3).row["index"] == 0  # a value at the limit keeps it


def test_a_draw_meets_the_limit_exactly():
    curve = make_curve([0.3, 0.05, 0.01], [0.10, 0.14, 0.20])
    # Halfway between 0.01 and 0.05, so half of either error.
    assert draw(curve, "sp", 0.03) == (pytest.approx(0.17), pytest.approx(0.03), True)
    # At 0.05 the model itself is cheaper than any draw across it.
    assert draw(curve, "sp", 0.05) == (pytest.approx(0.14), pytest.approx(0.05), True)
    # A bent curve is cut off: 0.01 and 0.3 beat the model at 0.05.
    bent = make_curve([0.3, 0.05, 0.01], [0.10, 0.25, 0.11])
    odds = (0.3 - 0.05) / 0.29
    assert draw(bent, "sp", 0.05)[0] == pytest.approx(odds * 0.11 + (1 - odds) * 0.10)
    assert draw(curve, "sp", 0.001) == (0.20, 0.01, False)


def test_among_equal_errors_the_fairer_then_the_earlier():
    assert choose(make_curve([0.04, 0.02, 0.03], [0.2] * 3), "sp", 0.05).row["index"] == 1
    assert choose(make_curve([0.2, 0.02, 0.02], [0.1, 0.2, 0.2]), "sp", 0.05).row["index"] == 1


def test_where_none_keeps_the_limit_the_fairest_is_chosen():
    found = choose(make_curve([0.3, 0.08, 0.09], [0.1, 0.3, 0.2]), "sp", 0.05)
    assert (found.row["index"], found.met, found.measure) == (1, False, 0.08)


def test_every_attribute_must_keep_the_limit():
    curve = make_curve([0.01, 0.04], [0.1, 0.2], attributes=("race", "age"))
    curve[0] |= {"validation_sp[age]": 0.2}
    assert worst(curve[0], "sp", "validation") == 0.2
    assert choose(curve, "sp", 0.05).row["index"] == 1


def test_validation_rows_choose_and_test_rows_do_not():
    curve = make_curve(
        [{"validation": 0.01, "test": 0.2}, {"validation": 0.2, "test": 0.01}], [0.2, 0.2]
    )
    assert choose(curve, "sp", 0.05).row["index"] == 0
    assert choose(curve, "sp", 0.05, part="test").row["index"] == 1


@pytest.mark.parametrize("measure", ["sp", "eop", "eo", "ratio", "dp", "eod"])
def test_each_measure_is_its_own(measure):
    curve = make_curve([0.5, 0.5], [0.1, 0.2])
    one = f"validation_{measure}" if measure in ("dp", "eod") else f"validation_{measure}[sex]"
    curve[1][one] = 0.01
    assert choose(curve, measure, 0.05).row["index"] == 1


@pytest.mark.parametrize("value", [float("nan"), None])
def test_a_measure_that_is_no_number_is_an_error(value):
    row = make_row(validation_dp=value)
    with pytest.raises(ValueError, match="validation dp is missing or not a number: Adult, 0"):
        choose([row], "dp", 0.05)
    row = make_row(**{"validation_sp[sex]": value})
    with pytest.raises(ValueError, match="validation sp is missing"):
        choose([row], "sp", 0.05)


def test_a_promised_model_is_the_one_of_its_limit():
    curve = make_curve([0.2, 0.1, 0.01], [0.1, 0.2, 0.3], method="fairspan-promise")
    for row, limit in zip(curve, (0.1, 0.05, 0.02), strict=True):
        row["value"] = limit
    # Validation rows have no part in it, but they say whether it is kept there.
    found = choose(curve, "sp", 0.1)
    assert (found.row["value"], found.met, found.measure) == (0.1, False, 0.2)
    assert choose(curve, "sp", 0.03).row["value"] == 0.02
    assert choose(curve, "sp", 0.001).row["value"] == 0.02
    assert choose(curve, "sp", 0.5).row["value"] == 0.1


def test_limits_kept_on_test_rows_are_counted():
    rows = []
    for split, parity in enumerate((0.01, 0.06, 0.2)):
        rows += make_curve([{"validation": 0.01, "test": parity}], [0.2], split=split)
    kept = {row["limit"]: row["kept"] for row in price_table(Runs(rows), "Adult", "sp", "sp")}
    assert kept == {0.02: 1, 0.03: 1, 0.05: 1, 0.1: 2}
    assert {row["limit"] for row in price_table(Runs(rows), "Adult", "sp", "ir")} == {
        0.05, 0.1, 0.2
    }  # fmt: skip


def test_rows_of_before_a_measure_have_no_table_of_it():
    rows = make_curve([0.3, 0.01], [0.2, 0.3])
    older = [
        {k: v for k, v in row.items() if not k.endswith("_ir")}
        for row in make_curve([0.3, 0.01], [0.2, 0.3], method="fgp")
    ]
    assert {row["measure"] for row in tabulate(Runs(rows)).price} == {"sp", "dp", "ir"}
    assert {row["measure"] for row in tabulate(Runs([*rows, *older])).price} == {"sp", "dp"}


# --- prices -------------------------------------------------------------------------------------


def test_prices_are_counted_from_one_error_per_split():
    rows = []
    for split, free in enumerate((0.20, 0.30)):
        rows += make_curve([0.3, 0.01], [free, free + 0.02], split=split)
        rows += make_curve([0.3, 0.01], [free + 0.05, free + 0.08], split=split, method="fgp")
        # Not fitted by criterion, and nothing within the limit.
        rows += make_curve([0.3], [free - 0.01], split=split, method="gp", criterion="none")
    runs = Runs(rows)
    assert runs.unconstrained("Adult") == {0: 0.20, 1: 0.30}
    assert Runs(rows[::-1]).sets == runs.sets == ["Adult"]
    table = {row["method"]: row for row in price_table(runs, "Adult", "sp", "sp", [0.05])}
    assert list(table) == ["fairspan", "fgp", "gp"]
    assert table["fairspan"]["price"] == pytest.approx(0.02)
    assert table["fgp"]["price"] == pytest.approx(0.08)
    assert table["fgp"]["own_price"] == pytest.approx(0.03)
    assert table["fgp"]["error"] == pytest.approx(0.33)
    assert table["fgp"]["error_se"] == pytest.approx(0.05)  # of 0.28 and 0.38
    assert table["fgp"]["price_se"] == pytest.approx(0.0, abs=1e-12)
    assert (table["fgp"]["met"], table["gp"]["met"], table["gp"]["splits"]) == (2, 0, 2)
    assert table["gp"]["price"] == pytest.approx(-0.01)


def test_the_choice_on_test_rows_has_its_own_column():
    curve = make_curve(
        [{"validation": 0.01, "test": 0.2}, {"validation": 0.2, "test": 0.01}], [0.3, 0.4]
    )
    (row,) = price_table(Runs(curve), "Adult", "sp", "sp", [0.05])
    assert (row["error"], row["test_chosen_error"]) == (0.3, 0.4)
    assert (row["met"], row["test_chosen_met"], row["test_measure"]) == (1, 1, 0.2)


def test_without_fairspan_there_is_no_price():
    (row,) = price_table(Runs(make_curve([0.01], [0.2], method="fgp")), "Adult", "sp", "sp", [0.05])
    assert math.isnan(row["price"])
    assert row["error"] == 0.2


# --- pairs --------------------------------------------------------------------------------------


def test_each_rival_has_its_partner():
    for measure in ("sp", "eop", "eo", "dp", "eod"):
        assert partner("eg-boosting", measure) == partner("boosting", measure) == "fairspan-leaves"
        assert partner("ncfr", measure) == "fairspan-aware"
    assert partner("fgp", "sp") == partner("eg-psi", "eo") == "fairspan"
    assert partner("eg-psi", "dp") == partner("fgp", "eod") == "fairspan-decisions"
    assert partner("linear-post", "dp") == "fairspan-rule-boosting"
    assert partner("linear-post-logistic", "ir") == "fairspan-rule-logistic"
    assert partner("penalised-boosting", "sp", many_valued=True) == "fairspan-auto"


def one_cell(ours, theirs, parity=0.01, limit=0.05):
    """Errors by split of ours and of a rival, which has this parity by split."""
    parity = np.broadcast_to(parity, len(theirs))
    rows = [make_row(split=i, sp=0.01, error=error) for i, error in enumerate(ours)]
    rows += [
        make_row(split=i, sp=float(parity[i]), error=error, method="fgp")
        for i, error in enumerate(theirs)
    ]
    return paired(Runs(rows), "Adult", "sp", "sp", limit, "fairspan", "fgp")


def test_differences_are_taken_split_by_split():
    cell = one_cell([0.21, 0.32, 0.43], [0.20, 0.30, 0.40])
    assert cell["mean"] == pytest.approx(0.02)
    assert cell["se"] == pytest.approx(0.01 / math.sqrt(3))
    assert cell["z"] == pytest.approx(2.0 * math.sqrt(3))
    assert cell["verdict"] == cell["reached_verdict"] == "worse > 2 SE"


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ((0.01, 0.02, 0.03), "worse > 2 SE"),
        ((-0.01, 0.02, 0.03), "worse > 1 SE"),
        ((-0.03, 0.02, 0.03), "ok"),
        ((-0.01, -0.02, -0.03), "ok"),
        ((0.01, 0.01, 0.01), "worse > 2 SE"),
        ((1e-13, 1e-13, 1e-13), "ok"),  # the same number computed in another order
    ],
)
def test_verdicts(gaps, verdict):
    theirs = [0.25] * 3
    assert one_cell([0.25 + gap for gap in gaps], theirs)["verdict"] == verdict


def test_a_rival_that_is_not_fair_does_not_win():
    ours, theirs = [0.3] * 4, [0.1, 0.1, 0.31, 0.31]
    cell = one_cell(ours, theirs, parity=[0.4, 0.4, 0.01, 0.01])
    assert (cell["verdict"], cell["met"], cell["splits"]) == ("not reached", 2, 4)
    assert cell["mean"] == pytest.approx(-0.01)
    cell = one_cell(ours, theirs, parity=[0.4, 0.01, 0.01, 0.01])
    assert (cell["verdict"] == "not reached", cell["met"]) == (False, 3)


def test_at_equal_parity_ours_may_be_as_unfair_as_the_rival():
    rows = []
    for split in range(3):
        rows += make_curve([0.3, 0.2, 0.01], [0.10, 0.15, 0.30], split=split)
        rows += make_curve([0.2], [0.16], split=split, method="gp", criterion="none")
    cell = paired(Runs(rows), "Adult", "sp", "sp", 0.05, "fairspan", "gp")
    assert (cell["verdict"], cell["met"]) == ("not reached", 0)
    assert math.isnan(cell["mean"])
    assert cell["reached_mean"] == pytest.approx(-0.01)  # 0.15, not 0.30 or 0.10
    assert (cell["reached_verdict"], cell["reached_ours_met"]) == ("ok", 3)


def test_ours_that_misses_the_limit_is_counted():
    rows = []
    for split in range(3):
        rows += make_curve([0.3, 0.2 if split else 0.01], [0.1, 0.2], split=split)
        rows += make_curve([0.01], [0.3], split=split, method="fgp")
    cell = paired(Runs(rows), "Adult", "sp", "sp", 0.05, "fairspan", "fgp")
    assert (cell["met"], cell["ours_met"]) == (3, 1)


def test_only_shared_splits_are_compared():
    assert one_cell([0.2], [0.1, 0.1, 0.1])["splits"] == 1
    assert (
        paired(Runs(make_curve([0.1], [0.2])), "Adult", "sp", "sp", 0.05, "fairspan", "fgp") is None
    )
    assert paired_table(Runs(make_curve([0.1], [0.2])), "Adult", "sp", "sp") == []


# --- one number for a curve ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([(0.0, 0.0)], 1.0),
        ([(0.5, 0.5)], 0.25),
        ([(0.25, 0.5), (0.5, 0.25)], 0.375 + 0.125),  # 0.25 x 0.5 + 0.5 x 0.75
        ([(0.5, 0.25), (0.25, 0.5), (0.6, 0.4)], 0.5),  # order and dominated points do not matter
        ([(0.5, 0.25), (0.5, 0.5)], 0.375),
        ([(1.0, 0.0), (0.0, 1.0), (2.0, 0.0), (0.0, 3.0)], 0.0),  # at or beyond the reference
        ([(0.25, 3.0), (0.5, 0.5)], 0.25),
    ],
)
def test_dominated_area_of_staircases(points, area):
    assert hypervolume(np.array(points), (1.0, 1.0)) == pytest.approx(area)
    moved = np.array(points) * (0.3, 0.2) + (0.0, 0.1)  # another rectangle, the same share of it
    assert hypervolume(moved, (0.3, 0.3), (0.0, 0.1)) == pytest.approx(area)


def test_the_reference_point_is_one_per_data_set():
    rows = []
    for split in range(2):
        rows += make_curve([0.4, 0.0], [0.2, 0.3], split=split)
        rows += make_curve([0.2, 0.1], [0.2, 0.6], split=split, method="fgp")
    table = {row["method"]: row for row in hypervolume_table(Runs(rows))}
    for row in table.values():
        assert (row["reference_parity"], row["reference_error"]) == (0.4, 0.6)
        assert row["lowest_error"] == 0.2
    # fairspan: 0.3 of 0.4 height along the whole width; fgp: all of the height from 0.2 on.
    assert table["fairspan"]["hypervolume"] == pytest.approx(0.75)
    assert table["fgp"]["hypervolume"] == pytest.approx(0.5)
    assert table["fgp"]["se"] == 0.0


def test_over_correction_is_judged_at_the_last_dial_value():
    rows = make_curve([0.3, 0.06], [0.2, 0.3], attributes=("race", "age"), n_test=1600, n_fit=1600)
    rows[-1]["test_sp[age]"] = 0.2
    race, age = over_correction(Runs(rows))
    assert race["allowed"] == pytest.approx(0.1)
    assert race["excess"] == pytest.approx(-0.04)
    assert age["ratio"] == pytest.approx(2.0)


def test_one_fit_of_ours_against_theirs_for_every_value():
    rows = make_curve([0.3, 0.1], [0.2, 0.3], fit_seconds=3.0)
    rows += make_curve([0.3, 0.1], [0.2, 0.3], method="eg-psi")
    rows[-2]["fit_seconds"], rows[-1]["fit_seconds"] = 20.0, 40.0
    of = (Runs(rows), "Adult", "sp", "fairspan", "eg-psi")
    assert fit_time(*of) == pytest.approx(0.05)
    assert fit_time(*of, dial=False) == pytest.approx(0.1)
    assert math.isnan(fit_time(Runs(rows), "Adult", "sp", "fairspan", "eg-logistic"))


# --- the page and the pictures ------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    from fairspan_lab.frontier._report import write_report

    folder = tmp_path_factory.mktemp("report")
    rows = every_row(sets=("Adult", "NLSY79"))
    return folder, write_report(rows, folder, False), rows


def test_every_file_is_written(report):
    folder, written, _ = report
    assert sorted(p.name for p in written) == sorted(p.name for p in folder.iterdir())
    assert {p.name for p in written} == {
        "price.csv", "paired.csv", "hypervolume.csv", "frontier.md", "prices.png",
        *(f"frontier_{criterion}.png" for criterion in ("sp", "eop", "eo")),
    }  # fmt: skip
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
            width, height = np.frombuffer(path.read_bytes()[16:24], dtype=">u4")
            assert width == 1600
            assert 400 < height < 1200


def test_each_method_stands_once_in_its_table(report):
    from fairspan_lab.frontier import METHODS

    folder, _, _ = report
    page = (folder / "frontier.md").read_text(encoding="utf-8")
    section = page.split("### Adult: statistical parity")[1].split("###")[0]
    blind, aware = (
        [line.split(" | ")[0].removeprefix("| ") for line in part.splitlines() if "±" in line]
        for part in section.split("legal reason")
    )
    own = [m for m in OURS if m not in ("fairspan-aware", *NUMBERS_ONLY)]
    assert blind == [METHODS[m].label for m in (*own, *BLIND)]
    assert aware == [
        f"{METHODS['fairspan'].label}: does not read S",
        *(f"{METHODS[m].label} †" for m in ("fairspan-aware", *AWARE) if m not in FOR_NUMBERS),
    ]


def test_every_method_has_its_place_and_its_look():
    from fairspan_lab.frontier import METHODS
    from fairspan_lab.frontier._styles import STYLES

    assert set(METHODS) == {*OURS, *BLIND, *AWARE} == set(STYLES)
    ours = {"fairspan-aware", "fairspan-aware-correlation"}
    assert {m for m in METHODS if METHODS[m].reads_sensitive} == {*ours, *AWARE}
    assert len(set(STYLES.values())) == len(STYLES)
    for data in SETS:
        assert PROBLEMS[data].classifies == (data in CLASSES)


def test_numbers_of_the_page_are_those_of_the_tables(report):
    folder, _, rows = report
    with (folder / "price.csv").open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    one = [r for r in table if (r["data"], r["method"], r["measure"]) == ("NLSY79", "fgp", "sp")]
    assert [float(r["limit"]) for r in one] == list(LIMITS)
    (again,) = (
        r for r in price_table(Runs(rows), "NLSY79", "sp", "sp", [0.02]) if r["method"] == "fgp"
    )
    assert float(one[0]["price"]) == pytest.approx(again["price"], rel=1e-9)
    page = (folder / "frontier.md").read_text(encoding="utf-8")
    assert f"{again['price']:+.4f} ± {again['price_se']:.4f}" in page
    measures = {(r["criterion"], r["measure"]) for r in table if r["data"] == "Adult"}
    assert measures == set(TABLES)
    assert {r["measure"] for r in table if r["data"] == "NLSY79"} == {"sp"}


def test_losses_are_named(report):
    folder, _, _ = report
    with (folder / "paired.csv").open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    page = (folder / "frontier.md").read_text(encoding="utf-8")
    part = page.split("From X alone: statistical parity")[1].split("From X alone")[0]
    lost = [r for r in table if r["measure"] == "sp" and r["rival"] in BLIND
            and r["reached_verdict"].startswith("worse")]  # fmt: skip
    assert lost
    for row in lost:
        named = re.search(
            rf"- {re.escape(row['data'])} ≤ [0-9., ]*{float(row['limit']):g}[,:]", part
        )
        assert named, row


def test_the_same_rows_give_the_same_files(report, tmp_path):
    from fairspan_lab.frontier._report import write_report

    few = [r for r in report[2] if r["data"] == "NLSY79" and r["method"] in ("fairspan", "fgp")]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        written = write_report(few, tmp_path / name, True)
        assert all("-quick" in path.name for path in written)
        few = few[::-1]  # whatever order the cells finish in
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_a_run_of_one_split_without_ours_has_a_report(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    from fairspan_lab.frontier._report import write_report

    written = write_report(make_curve([0.3, 0.1], [0.2, 0.3], method="fgp"), tmp_path, True)
    assert "prices-quick.png" not in {path.name for path in written}
    assert "no prices" in (tmp_path / "frontier-quick.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="no rows"):
        write_report([], tmp_path, True)


def test_a_run_without_statistical_parity_has_a_report(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    from fairspan_lab.frontier._report import write_report

    rows = make_curve([0.3, 0.1], [0.2, 0.3], criterion="eop")
    assert "frontier_eop-quick.png" in {p.name for p in write_report(rows, tmp_path, True)}


def test_tables_are_read_as_they_were_written(tmp_path):
    pytest.importorskip("matplotlib")
    from fairspan_lab.frontier._page import markdown

    tables = tabulate(Runs(every_row(sets=("Adult", "NLSY79"))))
    files = write_tables(tables, tmp_path, "Written by a test")
    assert all(path.read_text("utf-8").startswith("# Written by a test\n") for path in files)
    again, note = read_tables(tmp_path)
    assert note == "Written by a test"
    for name in ("price", "paired", "other_pairs", "hypervolume", "ends", "times"):
        for old, new in zip(getattr(tables, name), getattr(again, name), strict=True):
            texts = {key: value for key, value in old.items() if isinstance(value, str)}
            assert {key: new[key] for key in texts} == texts
            numbers = [key for key in old if key not in texts]
            assert [new[k] for k in numbers] == pytest.approx(
                [old[k] for k in numbers], rel=1e-5, nan_ok=True
            )
    pages = [markdown(part, [], quick=False).splitlines() for part in (tables, again)]
    assert len(pages[0]) == len(pages[1])


def test_committed_tables_are_small_and_name_their_origin():
    from tools.frontier_tables import COMMITTED, committed_tables

    assert committed_tables() is not None
    files = list(COMMITTED.glob("*.csv"))
    assert len(files) == 6
    for path in files:
        assert path.stat().st_size < 200_000
        first = path.read_text("utf-8").partition("\n")[0]
        assert re.match(r"# Written by `python -m tools\.frontier_tables` .*commit \w{7,}", first)


def test_tables_of_another_version_of_the_benchmark_are_not_used(tmp_path):
    from tools.frontier_tables import benchmark_version, committed_tables

    tables = tabulate(Runs(make_curve([0.3, 0.1], [0.2, 0.3])))
    assert committed_tables(tmp_path) is None
    write_tables(tables, tmp_path, f"version {benchmark_version()}")
    assert committed_tables(tmp_path) is not None
    write_tables(tables, tmp_path, f"version {benchmark_version()}1")
    assert committed_tables(tmp_path) is None


# --- the limits ---------------------------------------------------------------------------------

CHEAP = {"fairspan": 0.002, "fairspan-correlation": 0.002}


@pytest.fixture(scope="module")
def cheap():
    return every_row(price=CHEAP)


def missed(rows):
    from tools.acceptance_price import judge

    return [row.name for row in judge(tabulate(Runs(rows))) if not row.passed]


def test_limits_are_kept_where_they_should_be(cheap):
    assert missed(cheap) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda r: r["method"] == "fairspan" and {"test_error": r["test_error"] + 0.01 * r["index"]},
         "default, Law school"),
        (lambda r: "age" in str(r) and r["method"] == "fairspan" and {"test_ratio[age]": 0.07},
         "fair end, NLSY79 age"),
        (lambda r: r["method"] == "fair-pca" and {"test_error": 0.1}, "worse by > 2 SE"),
        (lambda r: r["method"] == "eg-psi" and {"test_error": 0.1}, "eg-psi, eod <= 0.05, COMPAS"),
        (lambda r: r["method"] == "eg-logistic" and {"fit_seconds": 2.0}, "dial / eg-logistic's"),
        (lambda r: r["method"] == "ncfr" and {"test_error": 0.1}, "ncfr, sp <= 0.1, Communities"),
        (lambda r: r["method"] == "fairspan" and r["index"] == 4 and {"test_sp[origin]": 0.1}
         if r["data"] == "Communities" else None, "at the fair end"),
    ],
)  # fmt: skip
def test_a_limit_that_must_be_missed_is_missed(cheap, change, named):
    rows = [row | (change(row) or {}) for row in cheap]
    assert any(named in name for name in missed(rows)), missed(rows)


def test_what_was_not_run_is_missed(cheap, capsys):
    names = missed([row for row in cheap if row["method"] != "eg-psi"])
    assert "methods by data set that were not run" in names
    assert any("eg-psi, dp" in name for name in names)
    assert "not run: eg-psi on COMPAS" in capsys.readouterr().out
    assert "splits, fewest of any method" in missed([r for r in cheap if r["split"] < 2])
    from tools.acceptance_price import judge
    from tools.table import show

    assert show(judge(tabulate(Runs([])))) == 1


def test_cells_that_fail_are_a_miss(monkeypatch, tmp_path, capsys):
    from tools import acceptance_price

    def fails(data, methods, *, out, criteria, **_):
        (out / "cells").mkdir(exist_ok=True)
        if criteria == ["sp"]:
            raise acceptance_price.FailedCellsError(["Adult, split 0, gp: ValueError: no"], 9, [])

    monkeypatch.setattr(acceptance_price, "frontier", fails)
    monkeypatch.setattr(acceptance_price, "OUT", tmp_path)
    monkeypatch.setattr(acceptance_price, "COMMITTED", tmp_path / "none")
    first = next(acceptance_price.measurements())
    assert (first.name, first.measured, first.passed) == ("cells that failed", 1, False)
    assert "gp: ValueError: no" in capsys.readouterr().out
