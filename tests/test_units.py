"""New files are read as those of training: signs of numbers, dates, codes as text."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from pyarrow import parquet  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import fairspan  # noqa: E402
from fairspan.exceptions import DataWarning  # noqa: E402
from fairspan.inputs.units import units_of  # noqa: E402
from fairspan.tables import read_table  # noqa: E402

FEATURES = ["income", "share", "since", "seen", "code"]
ROLES = {"target": "repaid", "sensitive_features": "sex", "features": FEATURES}
RNG = np.random.default_rng(1)
UNITS = {"share": "%", "income": "€"}


def people(n=120):
    rng = np.random.default_rng(0)
    share = rng.uniform(1, 40, n).round(1)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "income": [f"€{value:.2f}" for value in rng.uniform(1000, 3000, n)],
            "share": [f"{value} %" for value in share],
            "since": pd.date_range("2019-01-01", periods=n, freq="3D").strftime("%Y-%m-%d"),
            "seen": pd.date_range("2019-01-01", periods=n, freq="9h").strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
            "code": rng.choice(["01", "02", "1A"], n),
            "repaid": np.where(share + rng.normal(size=n) > 20, "yes", "no"),
        }
    )


def read(path, **options):
    with pytest.warns(DataWarning):  # names the signs
        return read_table(path, **options)


@pytest.fixture
def file(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def by_fit(table):
    model = fairspan.FairRidgeClassifier(n_components=20, alpha=1.0)
    return model.fit(table[FEATURES], table["repaid"], sensitive_features=table["sex"])


def by_stream(table):
    return fairspan.FairRidgeClassifier(n_components=20, alpha=1.0).fit_stream([table], **ROLES)


def by_blocks(table):
    blocks = [table[:50], table[50:]]
    return fairspan.FairRidgeClassifier(n_components=20, alpha=1.0).fit_stream(blocks, **ROLES)


def by_learner(table):
    model = fairspan.FairClassifier(LogisticRegression())
    return model.fit(table[FEATURES], table["repaid"], sensitive_features=table["sex"])


@pytest.mark.parametrize("fit", [by_fit, by_stream, by_blocks, by_learner])
def test_a_model_keeps_the_signs_of_its_features(fit, file):
    table = read(file)
    assert units_of(table) == UNITS
    model = fit(table)
    assert dict(model._schema.units) == UNITS
    assert model.text_features_ == ["code"]
    fraction = table.assign(share=table["share"] / 100)
    fraction.attrs["fairspan.units"] = {"income": "€"}
    with pytest.raises(ValueError, match="Column 'share' had the sign % in training"):
        model.predict(fraction[FEATURES])
    empty = fraction.assign(share=np.nan)  # no sign, and no number that needs one
    with pytest.warns(DataWarning, match="No row has a value of 'share'"):
        model.predict(empty[FEATURES])
    fraction.attrs.clear()  # of unknown origin
    assert len(model.predict(fraction[FEATURES])) == len(table)


def test_signs_outlive_many_rows_and_a_file(tmp_path):
    table = pd.concat([people()] * 600, ignore_index=True)
    table.to_csv(tmp_path / "long.csv", index=False)
    model = by_stream(read(tmp_path / "long.csv"))
    assert dict(model._schema.units) == UNITS
    fairspan.save_model(model, tmp_path / "m.skops", keep_moments=False)
    assert dict(fairspan.load_model(tmp_path / "m.skops")._schema.units) == UNITS


def test_the_way_a_file_is_written_does_not_change_predictions(file, tmp_path):
    table = read(file)
    model = by_fit(table)
    expected = model.decision_function(table[FEATURES])
    comma = people().assign(
        income=people()["income"].str.removeprefix("€").str.replace(".", ",") + " EUR",
        share=people()["share"].str.replace(".", ","),
        code=people()["code"].where(people()["code"] != "1A", "01"),  # digits alone
    )
    comma.to_csv(tmp_path / "comma.csv", index=False, sep=";")
    same_code = (people()["code"] != "1A").to_numpy()
    new = read(tmp_path / "comma.csv", like=model)
    found = model.decision_function(new[FEATURES])
    np.testing.assert_allclose(found[same_code], expected[same_code], rtol=0, atol=1e-12)
    plain = table.copy()
    plain.attrs.clear()
    plain.to_csv(tmp_path / "plain.csv", index=False)
    with pytest.raises(ValueError, match="'share' had the sign %"):
        model.predict(read_table(tmp_path / "plain.csv", like=model)[FEATURES])
    given = read_table(tmp_path / "plain.csv", like=model, units=UNITS)
    np.testing.assert_allclose(model.decision_function(given[FEATURES]), expected, atol=1e-12)
    streamed = tmp_path / "out.parquet"
    arguments = {"method": "decision_function", "units": UNITS}
    model.predict_stream(tmp_path / "plain.csv", streamed, **arguments)
    np.testing.assert_allclose(parquet.read_table(streamed)["score"], expected, atol=1e-12)
    with pytest.raises(ValueError, match="'share' had the sign %"):
        model.predict_stream(tmp_path / "plain.csv", streamed)
    with pytest.raises(ValueError, match="units names the column 'shar'"):
        model.predict_stream(tmp_path / "plain.csv", streamed, units={"shar": "%"})
    with pytest.raises(ValueError, match="units is for files"):
        model.predict_stream([given], streamed, units=UNITS)


def test_a_streamed_model_has_plain_numbers(tmp_path):
    plain = people().assign(share=RNG.normal(size=120), income=RNG.normal(size=120))
    plain.to_csv(tmp_path / "plain.csv", index=False)
    model = fairspan.FairRidgeClassifier(n_components=20, alpha=1.0).fit_stream(
        tmp_path / "plain.csv", **ROLES
    )
    assert model._schema.units == ()
    people().to_csv(tmp_path / "signs.csv", index=False)
    with pytest.raises(ValueError, match="'share' had no sign in training, and has the sign %"):
        model.predict(read(tmp_path / "signs.csv", like=model)[FEATURES])


def test_dates_of_a_stream_are_dates_in_new_files(tmp_path):
    plain = people().assign(share=RNG.normal(size=120), income=RNG.normal(size=120))
    plain.to_csv(tmp_path / "a.csv", index=False)
    model = fairspan.FairRidgeClassifier(n_components=20, alpha=1.0)
    model.fit_stream(tmp_path / "a.csv", **ROLES)  # a warning would be an error
    assert model.text_features_ == ["code"]
    expected = model.decision_function(read_table(tmp_path / "a.csv")[FEATURES])
    # As Arrow does not read them: with a gap that is a word, and with fractions of seconds.
    other = plain.assign(
        since=plain["since"].where(plain.index > 0, "?"),
        seen=plain["seen"].str.replace("Z", ".000000Z"),
    )
    other.to_csv(tmp_path / "b.csv", index=False)
    model.predict_stream(tmp_path / "b.csv", tmp_path / "o.parquet", method="decision_function")
    found = parquet.read_table(tmp_path / "o.parquet")["score"].to_numpy()
    np.testing.assert_allclose(found[1:], expected[1:], rtol=0, atol=1e-12)


def test_types_of_new_files_are_given_or_those_of_training(tmp_path):
    plain = people().assign(
        share=RNG.normal(size=120), income=RNG.normal(size=120), code=np.tile(["1", "2"], 60)
    )
    plain.to_csv(tmp_path / "a.csv", index=False)
    types = {"code": "text"}
    model = fairspan.FairRidgeClassifier(n_components=20, alpha=1.0)
    model.fit_stream(tmp_path / "a.csv", column_types=types, **ROLES)
    out = tmp_path / "o.parquet"
    model.predict_stream(tmp_path / "a.csv", out, method="decision_function")
    kept = parquet.read_table(out)["score"].to_numpy()
    model.predict_stream(tmp_path / "a.csv", out, method="decision_function", column_types=types)
    np.testing.assert_array_equal(parquet.read_table(out)["score"], kept)
    with pytest.raises(ValueError, match="column_types names 'cod'"):
        model.predict_stream(tmp_path / "a.csv", out, column_types={"cod": "text"})
    with pytest.raises(ValueError, match="column_types=3 is not allowed"):
        model.predict_stream(tmp_path / "a.csv", out, column_types=3)
