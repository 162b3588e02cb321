"""Reports of odd tables and models: what is refused, left out, unknown, and said about it."""

import ast
import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")

import fairspan  # noqa: E402
from fairspan.auditing.reading import Protected  # noqa: E402
from fairspan.exceptions import DataWarning, FairspanWarning, warn_user  # noqa: E402
from fairspan.method.certificates import BlockCertificate, Certificate  # noqa: E402
from fairspan.report import explore  # noqa: E402
from fairspan.report import importance as _importance  # noqa: E402
from fairspan.report import page as _report  # noqa: E402
from fairspan.report import pipeline as _explore  # noqa: E402
from fairspan.report import roles as _roles  # noqa: E402
from fairspan.report import study as _study  # noqa: E402
from fairspan.report import training as _training  # noqa: E402
from fairspan.report.views import binned_means  # noqa: E402
from fairspan.report.words import ReportContext, certificate_words, criterion_words  # noqa: E402


def people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    income = rng.normal(size=n) + (sex == "m")
    return pd.DataFrame(
        {
            "sex": sex,
            "age": rng.integers(20, 80, n),
            "income": income,
            "debt": rng.normal(size=n),
            "job": rng.choice(["cook", "nurse"], n),
            "repaid": np.where(income + rng.normal(size=n) > 0.5, "yes", "no"),
            "amount": income + rng.normal(size=n),
        }
    )


def roles_of(target="repaid", **changed):
    given = {
        "target": target, "sensitive": ("sex", "age"), "control": (), "features": ("income", "debt"),
        "weight": None,
    }  # fmt: skip
    return _roles.Roles(**(given | changed))


# ------------------------------------------------------------------ a whole report


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_what_is_left_out_of_a_report_is_said_in_it(monkeypatch):
    monkeypatch.setattr(_importance, "MOST_SHOWN", 2)
    table = people().assign(day=pd.Timestamp("2020-01-01"))
    report = explore(
        table.drop(columns="amount"), target="repaid", sensitive_features=["sex"], n_points=3, n_boot=20,
        audit_parts=["scores"],
    )  # fmt: skip
    study = report.study
    notes = " ".join(study["about"]["notes"])
    assert "Columns left out, because they are neither numbers nor categories: day." in notes
    shown = study["importance"]
    assert len(shown["features"]) == 2
    assert "The 2 columns that change most are shown, of 4." in shown["note"]
    change = [abs(f["at_1"]["value"] - f["at_0"]["value"]) for f in shown["features"]]
    assert change == sorted(change, reverse=True)


# ------------------------------------------------------------------ the fit


def test_other_peoples_warnings_go_their_way_and_ours_are_passed_on_once():
    log = _training.WarningLog()

    def work():
        with log.record():
            warnings.warn("theirs", DeprecationWarning, stacklevel=1)
            for _ in range(2):
                warn_user("ours", DataWarning)

    with pytest.warns(DeprecationWarning, match="theirs") as seen:
        work()
    assert not [one for one in seen if issubclass(one.category, FairspanWarning)]
    assert log.texts == {"ours": DataWarning}
    with pytest.warns(DataWarning, match="^ours$") as seen:
        log.give()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ("auto", {}),
        ("continuous", {"sex": "continuous", "age": "continuous"}),
        ({"age": "categorical", "sex": "auto"}, {"age": "categorical"}),
        (["auto", "categorical"], {"age": "categorical"}),
    ],
)
def test_kinds_may_be_given_in_every_way_that_fit_takes(kinds, found):
    assert _training.read_kinds(kinds, ("sex", "age")) == found
    model = _training.choose_model(
        fairspan.FairRidge(), people(), roles_of("amount"), criterion="sp", pos_label=None,
        sensitive_kind=kinds, random_state=3,
    )  # fmt: skip
    assert model.sensitive_kind == (found or "auto")
    assert model.random_state == 3


@pytest.mark.parametrize(
    ("kinds", "says"),
    [({"job": "categorical"}, "'job', which is no protected"), ("often", "'often' is not allowed")],
)
def test_kinds_that_cannot_be_are_refused(kinds, says):
    with pytest.raises(ValueError, match=says):
        _training.read_kinds(kinds, ("sex", "age"))


@pytest.mark.parametrize(
    ("model", "changed", "given", "says"),
    [
        ("auto", {"amount": 1.0}, {}, "'amount' is the same in every row"),
        (fairspan.FairRidge(pos_label=1), {}, {}, "pos_label is for classes"),
        (
            fairspan.FairRidgeClassifier(),
            {"amount": [f"text {i}" for i in range(240)]},
            {},
            "has 240 different values, such as 'text 0'; a class",
        ),
        (
            fairspan.FairRidgeClassifier(pos_label="maybe"),
            {"amount": ["yes", "no"] * 120},
            {},
            "pos_label='maybe' is no value of 'amount': 'yes', 'no'",
        ),
        (
            fairspan.FairRidge(criterion="eo"),
            {},
            {"criterion": "equal_opportunity"},
            "but the model was given criterion='equalized_odds'",
        ),
        (fairspan.FairRepresentation(), {}, {}, "model=FairRepresentation is not allowed"),
        (fairspan.FairRidge, {}, {}, "model=FairRidge is not allowed"),
    ],
)
def test_a_model_that_does_not_suit_the_target_is_refused(model, changed, given, says):
    asked = {"criterion": "sp", "pos_label": None, "sensitive_kind": "auto"} | given
    with pytest.raises(ValueError, match=says):
        _training.choose_model(
            model, people().assign(**changed), roles_of("amount"), random_state=0, **asked
        )  # fmt: skip


def test_strata_are_needed_where_the_criterion_is_about_them():
    model = fairspan.FairRidge(criterion="conditional_statistical_parity")
    with pytest.raises(ValueError, match="needs control_features"):
        _training.fit_model(model, people(), roles_of("amount"), "people.csv")


def test_a_row_that_cannot_be_used_is_named_as_the_table_counts_it():
    table = people().assign(weight=1.0)
    table.loc[9, "weight"] = -1.0
    train = table.drop(index=[1, 2])
    with pytest.raises(ValueError, match=r"^people\.csv, row 10: sample_weight holds 1 negative"):
        _training.fit_model(
            fairspan.FairRidge(), train, roles_of("amount", weight="weight"), "people.csv"
        )


# ------------------------------------------------------------------ columns


def test_values_that_do_not_compare_are_described_as_text():
    table = people(20).assign(tags=[[1], [2]] * 10)
    found = _roles.describe_columns(table, roles_of(), {}, ["tags"])
    tags = next(one for one in found if one["name"] == "tags")
    assert tags["kind"] == "text"
    assert tags["role"] != "feature"


def test_columns_that_are_mostly_unknown_together_give_nothing_away():
    """Half of the rows at least must speak for it."""
    table = people()
    copy = table["repaid"].map({"no": "a", "yes": "b"}).astype(object)
    roles = roles_of(features=("copy",))
    whole = list(_roles.give_aways(table.assign(copy=copy), roles))
    assert len(whole) == 1
    assert "'copy' gives away the target 'repaid'" in whole[0]
    assert list(_roles.give_aways(table.assign(copy=copy.where(table.index < 60)), roles)) == []


def test_a_text_for_nearly_every_row_agrees_by_chance_only():
    """Each of its values goes with one value of the target, and that says nothing."""
    table = people(60).assign(name=[f"n{i // 2 * 2}" for i in range(60)])
    table["repaid"] = np.repeat(np.random.default_rng(1).choice(["no", "yes"], 30), 2)
    assert list(_roles.give_aways(table, roles_of(features=("name",)))) == []


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ({"value": None, "low": None, "high": None}, "not known"),
        ({"value": 0.123456, "low": None, "high": None}, "0.123"),
        ({"value": 0.5, "low": 0.25, "high": 0.75}, "0.5 [0.25, 0.75]"),
    ],
)
def test_a_number_is_shown_with_what_is_known_of_it(found, shown):
    assert _report._rounded(found) == shown


def other(said, positive=(1,), **target):
    data = SimpleNamespace(target=SimpleNamespace(**target), weight=None, positive=positive)
    return _study._r2_or_auc(SimpleNamespace(outputs=said), SimpleNamespace(data=data))


def test_a_second_measure_is_unknown_where_the_truth_does_not_vary():
    rng = np.random.default_rng(0)
    said = rng.normal(size=(30, 1))
    assert np.isnan(other(said, values=np.full(30, 2.0), codes=None))
    assert np.isnan(other(said, values=None, codes=np.ones(30, dtype=int)))
    assert other(said, values=said[:, 0], codes=None) == 1.0


def test_classes_that_do_not_occur_have_no_part_in_the_mean():
    codes = np.array([0, 1] * 20)
    said = np.random.default_rng(0).random((40, 3))
    said[:, 0] = codes == 0  # perfect; the other is perfectly wrong
    said[:, 1] = codes == 0
    assert other(said, values=None, codes=codes) == pytest.approx(0.5)


def test_lines_of_an_audit_have_what_there_is():
    known = {
        "section": "scores", "metric": "m", "attribute": "sex", "group": "f", "where": "all", "value": 1.0,
        "low": 0.0, "high": 2.0, "p_adjusted": 0.5, "note": "few rows",
    }  # fmt: skip
    few = {("sex", "x")}
    bare = known | {"group": "", "where": "", "note": "", "p_adjusted": float("nan")}
    tiny, narrow = known | {"group": "x", "where": ""}, known
    rows = [(known, 40), (bare, 2), (tiny, 3), (narrow, 4)]
    audit = SimpleNamespace(findings=[SimpleNamespace(**one, n_rows=n) for one, n in rows])
    first, second, third, fourth = _study.audit_lines(audit, 0.5, few)["lines"]
    for line, n in ((third, 3), (fourth, 4)):
        assert all(np.isnan(line[what]) for what in ("value", "low", "high"))
        assert "p_adjusted" not in line
        assert line["note"] == f"too few rows ({n})"
    assert first == known
    assert second == {
        k: v for k, v in known.items() if k not in ("group", "where", "note", "p_adjusted")
    }


def test_a_slice_without_rows_has_no_mean():
    codes = np.repeat([0, 2], 5)
    one = Protected("s", "continuous", codes, ("a", "b", "c"), codes + np.tile(np.arange(5.0), 2))
    found = binned_means(np.arange(10.0), one, np.ones(10), 0.95)
    assert [row["mean"] for row in found] == [2.0, 7.0]
    assert sum(row["n"] for row in found) == 10


# ------------------------------------------------------------------ code


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=12), max_size=40))
def test_names_are_the_same_in_code_however_long_the_list(names):
    text = _training._code(names)
    assert text.isascii()
    assert ast.literal_eval(text) == names
    if "\n" in text:
        rows = text.splitlines()[1:-1]
        assert all(
            len(row) <= _training._WIDTH or len(ast.literal_eval(f"[{row}]")) == 1 for row in rows
        )


def test_a_model_is_constructed_from_what_was_set():
    kinds = {"sex": "categorical"}
    model = fairspan.FairRidge(
        alpha=np.float64(0.5), sensitive_kind=kinds, fairness=0.25, verbose=1
    )
    again = eval(_training._constructed(model), vars(fairspan))
    changed = model.get_params() | {"fairness": 1.0, "verbose": 0}
    assert again.get_params() == changed


def test_what_does_not_compare_is_not_the_default():
    assert not _training._same(np.arange(3), np.zeros(3))
    assert _training._same(None, None)
    assert _training._same("cv", "cv")


def test_kinds_that_were_told_are_in_the_snippet():
    model = fairspan.FairRidge(sensitive_kind={"age": "categorical"})
    recipe = _training.Recipe(
        source="table = ...", roles=roles_of("amount"), model=model, share=0.25, seed=0
    )
    tree = ast.parse(recipe.snippet(0.5))
    calls = {ast.unparse(one.func): one for one in ast.walk(tree) if isinstance(one, ast.Call)}
    held_out = {k.arg: ast.literal_eval(k.value) for k in calls["held_out_rows"].keywords}
    assert held_out == {"kinds": {"age": "categorical"}, "share": 0.25, "seed": 0}


# ------------------------------------------------------------------ words

BLOCK = BlockCertificate(
    cell="all rows",
    attribute="sex",
    coding="levels",
    constrained=True,
    supremum=0.0,
    score=0.0,
    n_rows=100,
    n_removed=1,
    n_codes=1,
)
PROMISE = Certificate(
    criterion="statistical_parity",
    fairness=1.0,
    dial="angle",
    blocks=(BLOCK,),
    cosines=np.ones(1),
    angles=np.zeros(1),
    containment_gap=0.0,
    accuracy_gap=0.0,
    n_functions=1,
)


def words(
    fairness=1.0, blocks=(BLOCK,), end=None, latent=False, noise=0.2, unmet=(), **changed
):  # fmt: skip
    found = replace(PROMISE, blocks=tuple(blocks), **changed)
    context = ReportContext(
        criterion=found.criterion,
        n_train=100,
        n_test=50,
        noise=noise,
        end=found if end is None else end,
        latent=latent,
        unseen_groups=unmet,
    )
    return " ".join(certificate_words(found, fairness, context))


def test_nothing_left_to_predict_with_is_said():
    assert "everybody gets the same score" in words(n_functions=0)
    assert "everybody gets the same score" not in words()


def test_groups_without_a_promise_are_named():
    text = words(blocks=[replace(BLOCK, left_out=tuple(f"g{i}" for i in range(8)))])
    assert "too few training rows: sex: g0, sex: g1" in text
    assert "sex: g5 and 2 more." in text
    assert "too few training rows" not in words()


def test_cells_without_a_constraint_are_named():
    free = replace(BLOCK, cell="y = yes", attribute="age", constrained=False)
    assert "Not constrained, for too few rows or no variation: age in y = yes." in words(
        blocks=[BLOCK, free]
    )
    # Another coding of it is constrained there: it is not free.
    assert "Not constrained" not in words(blocks=[BLOCK, replace(BLOCK, constrained=False)])


def test_directions_that_were_left_are_said_where_zero_is_promised():
    part = replace(BLOCK, supremum=0.3, n_codes=3)
    says = "Not all directions of the attributes were removed"
    assert says in words(blocks=[part])
    assert says not in words(fairness=0.5, blocks=[part])
    assert says not in words()


def test_fairness_1_removes_the_rest_only_where_all_directions_go():
    half = replace(BLOCK, supremum=0.3)
    left = replace(PROMISE, blocks=(replace(BLOCK, supremum=0.123, n_codes=3),))
    rest = "fairness 1 removes the rest"
    assert rest in words(0.5, [half], end=PROMISE)
    assert rest not in words(0.5, [half], end=left)
    assert "at fairness 1 the correlation is at most 0.123." in words(0.5, [half], end=left)


@pytest.mark.parametrize("fairness", [0.0, 0.5, 1.0])
def test_the_promise_is_about_the_score_before_it_is_a_probability(fairness):
    supremum = 0.0 if fairness == 1.0 else 0.3
    blocks = [replace(BLOCK, supremum=supremum)]
    text = words(fairness, blocks, latent=True)
    assert "raw score" in text.partition(". ")[0] or fairness == 0.0
    assert "its raw score correlates" in text or fairness > 0.0
    assert "Averages of the probabilities, which this page draws, can still differ" in text
    assert "raw score" not in words(fairness, blocks)
    assert "probabilit" not in words(fairness, blocks)


def test_groups_that_were_never_met_have_no_promise():
    says = "Nothing is promised for groups with too few training rows: sex: x."
    assert says in words(unmet=("sex: x",))
    assert "within sampling noise" not in words(noise=float("nan"))


def test_every_criterion_has_its_sentence():
    said = {
        name: criterion_words(name, ["sex", "age"], ["region"], "repaid", "yes")
        for name in (
            "statistical_parity", "equalized_odds", "equal_opportunity", "conditional_statistical_parity",
        )
    }  # fmt: skip
    assert all("must not depend on sex and age" in " ".join(text.split()) for text in said.values())
    assert "whose true repaid is yes" in said["equal_opportunity"]
    assert "of the same region" in said["conditional_statistical_parity"]
    assert len(set(said.values())) == 4
    latent = criterion_words("statistical_parity", ["sex"], [], "repaid", "yes", latent=True)
    assert latent.endswith("averages of the probabilities can still differ a little.")
    assert "probabilit" not in " ".join(said.values())
    assert json.dumps(said).isascii()


# ------------------------------------------------------------------ groups that were not met


def _words(table, seed=0, control=None, **given):
    model = fairspan.FairRidgeClassifier(gamma=0.3, alpha=1.0, eta=0.1, n_components=20, **given)
    report = explore(
        table, target="repaid", sensitive_features=["sex"], features=["income", "debt"],
        control_features=control, model=model, n_points=2, n_boot=20, audit_parts=["scores"],
        random_state=seed,
    )  # fmt: skip
    return " ".join(report.study["positions"][-1]["certificate"]["words"])


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_nothing_is_promised_for_a_group_without_a_favourable_row():
    """Of equal opportunity only the favourable class counts; others of the group were met."""
    table = people(300)
    table["sex"] = np.where(np.arange(300) < 12, "x", table["sex"])
    table["repaid"] = np.where(table["sex"] == "x", "no", table["repaid"])
    table.loc[0, "repaid"] = "yes"
    out = {
        bool(
            fairspan.report.held_out_rows(table, ["repaid", "sex"], share=0.25, seed=seed)[0]
        ): seed
        for seed in range(60)
    }
    for is_out in (True, False):
        words = _words(table, out[is_out], criterion="equal_opportunity", pos_label="yes")
        assert ("sex: x where repaid is yes" in words) == is_out


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_strata_that_are_slices_of_a_number_have_no_groups_to_name():
    table = people(300).assign(height=np.random.default_rng(1).normal(size=300))
    words = _words(table, control=["height"], criterion="conditional_statistical_parity")
    assert "where height is" not in words


def test_no_rows_have_no_noise():
    assert np.isnan(_explore._noise(None, people(0), None))


@pytest.mark.filterwarnings("ignore::fairspan.FairspanWarning")
def test_a_thin_slice_of_a_number_shows_no_mean_of_a_regression():
    table = people(48)
    report = explore(
        table, target="amount", sensitive_features=["age"], features=["income", "debt"], n_points=2,
        model=fairspan.FairRidge(gamma=0.3, alpha=1.0, eta=0.1, n_components=10), n_boot=20,
        audit_parts=["scores"], sensitive_kind={"age": "continuous"},
    )  # fmt: skip
    binned = report.study["positions"][0]["continuous"]["age"]["binned"]
    thin = [row for row in binned if row["n"] < 5]
    assert thin
    assert all(row["mean"] is None for row in thin)
