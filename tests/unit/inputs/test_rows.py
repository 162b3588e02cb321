"""Tables with text or with protected columns are refused or warned about."""

import warnings

import numpy as np
import pytest
from tests.support.few import FEW, rows

from fairspan import DataWarning, FairRepresentation, FairRidge


def test_text_beside_a_column_named_as_the_protected_one_is_explained():
    pd = pytest.importorskip("pandas")
    X, y, s = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(sex=s, town="x")
    given = {"sensitive_features": pd.Series(s, name="sex")}
    with pytest.raises(ValueError, match=r"'sex' has the name of a protected.*table_encoder"):
        FairRidge(**FEW, encoder=None).fit(frame, y, **given)
    with pytest.warns(DataWarning, match="X holds the protected attribute 'sex' itself"):
        FairRidge(**FEW).fit(frame, y, **given)


def test_a_model_with_an_encoder_needs_the_table_it_knows():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y, s = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(
        sex=s, y=y, town=np.where(X[:, 0] > 0, "x", "z")
    )
    model = FairRidge(**FEW).fit_stream(frame, target="y", sensitive_features="sex")
    with pytest.raises(ValueError, match="needs a data frame with the same columns; got ndarray"):
        model.predict(X)
    with pytest.raises(ValueError, match="no column 'town', which the model was fitted with"):
        model.predict(frame[list("abc")])


def test_two_rows_are_too_few_to_recognise_a_protected_column():
    """Any two columns of two rows are alike; three rows can differ."""
    from fairspan.inputs.rows import _warn_sensitive_columns

    est = FairRepresentation(**FEW)
    s = np.arange(6.0) % 2
    X = np.column_stack([s, np.arange(6.0) ** 2])
    data = est._read(X, np.arange(6.0), s, None, None, reset=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_sensitive_columns(est, data.take(np.arange(2)))
    with pytest.warns(DataWarning, match="protected"):
        _warn_sensitive_columns(est, data)
