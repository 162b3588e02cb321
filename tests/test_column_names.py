"""Names of columns: one for each, also as text; any type of text."""

import numpy as np
import pytest

from fairspan import FairRepresentation, audit, table_encoder
from fairspan.inputs.columns import require_columns
from fairspan.report import explore
from fairspan.streaming.sources import check_one_role
from tests.support.small import FIXED, table

pd = pytest.importorskip("pandas")

BASE = table()
LEVELS = pd.MultiIndex.from_tuples([("money", "income"), ("money", "debt"), ("life", "age")])
NAMES = {"levels": LEVELS, "text": pd.Index(["income", 1, "1"], dtype=object)}
MESSAGES = {
    "levels": r"names of several levels, such as \('money', 'income'\).*'_'.join",
    "text": "the columns 1 and '1', whose names are the same when written as text. Rename",
}


def frame(names):
    return pd.DataFrame(BASE.X, columns=NAMES[names])


def fit(X, S):
    return FairRepresentation(random_state=0, **FIXED).fit(X, BASE.y, sensitive_features=S)


CALLS = {
    "fit": lambda X: fit(X, BASE.s),
    "S": lambda X: fit(BASE.X, X),
    "predict": lambda X: fit(BASE.X, BASE.s).transform(X),
    "audit": lambda X: audit(BASE.X[:, 0], X, sensitive_features=BASE.s, parts=["scores"]),
    "audit S": lambda X: audit(BASE.X[:, 0], sensitive_features=X, parts=["scores"]),
    "table_encoder": table_encoder,
    "explore": lambda X: explore(X, target="income", sensitive_features="1"),
}


@pytest.mark.regression("MultiIndex columns")
@pytest.mark.parametrize("call", CALLS)
def test_names_of_several_levels_are_refused_with_a_remedy(call):
    with pytest.raises(ValueError, match=MESSAGES["levels"]):
        CALLS[call](frame("levels"))


@pytest.mark.regression("columns 1 and '1'")
@pytest.mark.parametrize("call", CALLS)
def test_names_that_are_the_same_as_text_are_refused(call):
    with pytest.raises(ValueError, match=MESSAGES["text"]):
        CALLS[call](frame("text"))


def test_the_remedy_for_several_levels_works():
    X = frame("levels")
    X.columns = ["_".join(map(str, name)) for name in X.columns]
    assert fit(X, BASE.s).feature_names_in_.tolist() == ["money_income", "money_debt", "life_age"]


def test_numbers_as_names_are_fine_where_they_do_not_collide():
    named = {"sex": BASE.s, "young": np.arange(len(BASE.s)) % 2}
    expected = fit(BASE.X, named).transform(BASE.X)
    S = pd.DataFrame(np.column_stack(list(named.values())))  # columns 0 and 1
    np.testing.assert_array_equal(fit(pd.DataFrame(BASE.X), S).transform(BASE.X), expected)


NUMPY_NAMES = pd.Index([np.str_("income"), np.str_("home"), np.str_("debt")], dtype=object)
MIXED_NAMES = pd.Index([np.str_("income"), "home", "debt"], dtype=object)


@pytest.mark.regression("table_encoder refuses np.str_ column names")
@pytest.mark.parametrize("names", [NUMPY_NAMES, MIXED_NAMES], ids=["all", "some"])
def test_names_of_numpys_text_type_are_encoded_as_any_other(names):
    plain = pd.DataFrame(
        {"income": [1.0, None, 3.0], "home": ["own", "rent", None], "debt": [0, 1, 2]}
    )
    given = plain.set_axis(names, axis=1)
    expected = table_encoder(plain, min_frequency=1).fit(plain)
    encoder = table_encoder(given, min_frequency=1).fit(given)
    assert encoder.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
    for rows in (plain, given, given.iloc[:, ::-1]):
        np.testing.assert_array_equal(encoder.transform(rows), expected.transform(plain))
    assert encoder.feature_names_in_.tolist() == ["income", "home", "debt"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Incme", r"Did you mean 'income'\?"),
        ("zzz", r"Its columns: 'income', 'debt'\."),
        (["income"], r"\['income'\], which is not there"),
    ],
)
def test_an_unknown_column_is_reported_with_similar_names(name, hint):
    with pytest.raises(ValueError, match=f"^keep names the column .*{hint}"):
        require_columns([name], ["income", "debt"], "keep names")
    require_columns(["debt"], ["income", "debt"], "keep names")


def test_a_column_has_one_role_unless_two_may_share_it():
    roles = {"target": ["y"], "sensitive": ["s"], "control": ["s"]}
    with pytest.raises(ValueError, match="The column 's' cannot be both sensitive and control"):
        check_one_role(roles)
    check_one_role(roles, may_share=("sensitive", "control"))
    with pytest.raises(ValueError, match="The column 'y' cannot be both target and control"):
        check_one_role({**roles, "control": ["y"]}, may_share=("sensitive", "control"))
