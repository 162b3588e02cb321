"""``fit_stream(folds="hash")``: samples and folds by the content of rows, so their order does not matter."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import FairRidge
from fairspan.estimators.stream_methods import _FitAdapter
from fairspan.streaming import Rows, Sample
from fairspan.streaming.sample import SamplePass
from tests.support.stream_data import FEATURES, FIXED, NAMED, cut, ridge, small_blocks, table

ROWS = table()
HOMES = np.random.default_rng(5).choice(["own", "rent", "none", "shared"], len(ROWS))
TEXT = ROWS.assign(home=np.where(np.arange(len(ROWS)) % 41 == 0, None, HOMES))


@pytest.fixture(scope="module", autouse=True)
def small():
    """A sample of a third of the rows: which rows it has makes a difference."""
    with small_blocks():
        yield


@pytest.fixture(scope="module")
def whole(small):
    return ridge(alpha="auto").fit_stream(ROWS, **NAMED, folds="hash")


def same_model(one, other, frame=ROWS):
    names = list(one.feature_names_in_)
    np.testing.assert_allclose(
        one.predict(frame[names]), other.predict(frame[names]), rtol=0.0, atol=1e-9
    )
    assert one.alpha_ == pytest.approx(other.alpha_, rel=1e-9)
    for a, b in zip(
        one.certificate_.new_rows.blocks, other.certificate_.new_rows.blocks, strict=True
    ):
        assert a.correlation == pytest.approx(b.correlation, abs=1e-9)
        assert a.high == pytest.approx(b.high, abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**20), st.sets(st.integers(1, 1199), max_size=5))
def test_neither_order_nor_cuts_matter(whole, seed, cuts):
    shuffled = ROWS.sample(frac=1.0, random_state=seed)
    model = ridge(alpha="auto").fit_stream(cut(shuffled, cuts), **NAMED, folds="hash")
    np.testing.assert_allclose(model.landmarks_, whole.landmarks_, rtol=0.0, atol=0.0)
    same_model(model, whole)


def test_by_position_the_order_matters():
    """Otherwise the law above would hold of any sample."""
    shuffled = ROWS.sample(frac=1.0, random_state=3)
    one, other = (ridge().fit_stream(frame, **NAMED) for frame in (ROWS, shuffled))
    assert np.abs(one.predict(ROWS[FEATURES]) - other.predict(ROWS[FEATURES])).max() > 1e-6


def test_text_is_hashed_too():
    shuffled = TEXT.sample(frac=1.0, random_state=3)
    one, other = (
        FairRidge(**FIXED).fit_stream(frame, **NAMED, folds="hash") for frame in (TEXT, shuffled)
    )
    assert "home" in one.text_features_
    same_model(one, other, TEXT)


def test_any_engine(whole):
    dd = pytest.importorskip("dask.dataframe")
    shuffled = ROWS.sample(frac=1.0, random_state=8)
    frame = dd.from_pandas(shuffled, npartitions=7, sort=False)
    same_model(ridge(alpha="auto").fit_stream(frame, **NAMED, folds="hash"), whole)


def test_copies_are_sampled_by_their_positions():
    """One hash for all copies of a row would bring all of them into the sample, or none."""
    kinds = np.random.default_rng(0).choice(8, 4000)
    frame = ROWS.iloc[:8].assign(sex=[0, 1] * 4).iloc[kinds].reset_index(drop=True)
    est = _FitAdapter(ridge())
    drawn = SamplePass(est, Sample(400, 0, by_content=True), None, digest=False)
    for first in range(0, 4000, 500):
        part = frame.iloc[first : first + 500]
        drawn.add(first, Rows(part[FEATURES], part["y"], part["sex"], None, None))
    sampled = drawn.sample.rows().X["a"].map({a: i for i, a in enumerate(ROWS["a"][:8])})
    counts, expected = np.bincount(sampled, minlength=8), 400 * np.bincount(kinds) / 4000
    assert len(sampled) >= 400
    assert ((counts - expected) ** 2 / expected).sum() < 24.3  # chi-squared with 7 degrees, .001


@pytest.mark.filterwarnings("ignore:Only .* of .* rows differ:fairspan.DataWarning")
def test_copies_in_another_order_end_in_the_same_model():
    frame = pd.concat([TEXT.iloc[:300]] * 4, ignore_index=True)
    with small_blocks(sample=2000):
        one, other = (
            FairRidge(**FIXED).fit_stream(rows, **NAMED, folds="hash")
            for rows in (frame, frame.sample(frac=1.0, random_state=1))
        )
    same_model(one, other, frame)


def test_refused_folds():
    with pytest.raises(ValueError, match="folds='strata' is not allowed"):
        ridge().fit_stream(ROWS, **NAMED, folds="strata")
    with pytest.raises(ValueError, match="would divide groups"):
        ridge().fit_stream(ROWS, **NAMED, groups="a", folds="position")
