"""An audit of rows that the model was fitted on says so first, wherever it is read."""

import copy
import json
import pickle
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import (
    DataWarning,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    audit,
    load_model,
    save_model,
    table_encoder,
)
from tests.support.small import FIXED, table

defect = pytest.mark.regression("auditing the training rows without a word")
WORDS = "100% of these rows were used for fitting; the numbers below do not hold for new people"
N = 160
OLD, NEW = table(N, 0), table(N, 1)
FAST = {"parts": ["scores", "decisions"], "n_boot": 20, "random_state": 0}


def ridge(**params):
    return FairRidgeClassifier(**FIXED, n_components=10, random_state=0, **params)


def fitted(est=None, rows=OLD):
    return (est or ridge()).fit(rows.X, rows.y, sensitive_features=rows.s)


def audited(model, rows=OLD, *, X=None, **params):
    """An audit, and what it warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        X = rows.X if X is None else X
        out = audit(model, X, rows.y, **{"sensitive_features": {"s": rows.s}, **FAST, **params})
    return out, [str(one.message) for one in seen if issubclass(one.category, DataWarning)]


def share(model, rows=OLD, **params):
    """What the audit says about fitted rows; once, and nowhere if it is nothing."""
    out, seen = audited(model, rows, **params)
    known = getattr(out, "fitted_share", None)
    assert sum("used for fitting" in text for text in seen) == (known is not None)
    assert ("used for fitting" in repr(out)) == (known is not None)
    return known


@defect
def test_the_text_is_at_the_top_of_everything_that_is_written():
    out, seen = audited(fitted())
    assert [WORDS in text for text in seen] == [True]
    assert WORDS in out.warnings[0]
    assert WORDS in repr(out).splitlines()[1]
    assert repr(out).count(WORDS) == 1
    lines = out.to_markdown().splitlines()
    assert WORDS in lines[lines.index("### What stands out") + 2]
    assert out.to_dict()["fitted_share"] == 1.0
    assert WORDS in json.loads(out.to_json())["warnings"][0]
    assert out._repr_html_().index(WORDS) < out._repr_html_().index("<table")


@pytest.mark.parametrize(
    "model", [FairRepresentation, FairRidge, FairRidgeClassifier, FairGPRegressor, FairGPClassifier]
)
@defect
def test_every_model_recognises_its_rows(model):
    est = model(**FIXED, n_components=10, random_state=0)
    y = OLD.y.astype(float) if model in (FairRidge, FairGPRegressor) else OLD.y
    rows = OLD._replace(y=y)
    parts = {"parts": ["scores"]} if model is FairRepresentation else {}
    assert share(fitted(est, rows), rows, **parts) == pytest.approx(1.0, abs=0.01)


@defect
def test_half_of_the_rows_is_about_half():
    both = zip(OLD, NEW, strict=True)
    half = type(OLD)(*(np.concatenate([old[: N // 2], new[: N // 2]]) for old, new in both))
    assert share(fitted(), half) == pytest.approx(0.5, abs=0.03)


def test_new_rows_are_audited_without_a_word():
    assert share(fitted(), NEW) is None
    assert audited(fitted(), NEW)[0].to_dict()["fitted_share"] is None


def test_models_of_others_and_plain_scores_are_not_known():
    assert share(LogisticRegression().fit(OLD.X, OLD.y)) is None
    assert share(OLD.X[:, 0]) is None


@pytest.mark.parametrize("levels", [2, 6])
def test_rows_that_many_people_share_are_no_evidence(levels):
    rng = np.random.default_rng(0)

    def rows():
        s = rng.integers(0, 2, 400)
        X = rng.integers(0, levels, size=(400, 4)).astype(float)
        return type(OLD)(X, (X[:, 0] + s + rng.normal(size=400) > 1).astype(int), s)

    model = fitted(rows=rows())
    assert share(model, rows()) is None


# ------------------------------------------------------------------ ways to fit, to store, to ask


def streamed(est):
    blocks = [tuple(part[i : i + 40] for part in OLD) for i in range(0, N, 40)]
    return est.fit_stream(blocks)


def in_parts(est):
    est.prepare(OLD.X, OLD.y, sensitive_features=OLD.s)
    for rows in (slice(0, 50), slice(50, N)):
        est.partial_fit(OLD.X[rows], OLD.y[rows], sensitive_features=OLD.s[rows], solve=False)
    return est.solve()


def on_workers(est):
    est.prepare(OLD.X, OLD.y, sensitive_features=OLD.s)
    workers = [copy.copy(est) for _ in range(2)]
    for worker, rows in zip(workers, (slice(0, 50), slice(50, N)), strict=True):
        worker.partial_fit(OLD.X[rows], OLD.y[rows], sensitive_features=OLD.s[rows], solve=False)
    return workers[0].merge(workers[1])


@pytest.mark.parametrize("fit", [streamed, in_parts, on_workers])
@defect
def test_every_way_to_fit_keeps_its_rows(fit):
    model = fit(ridge())
    assert share(model) == pytest.approx(1.0, abs=0.01)
    assert share(model, NEW) is None
    assert model._fitted_rows.counts.sum() == N


def test_rows_of_weight_zero_are_not_fitted_on():
    weight = np.repeat([0.0, 1.0], N // 2)
    model = ridge().fit(OLD.X, OLD.y, sensitive_features=OLD.s, sample_weight=weight)
    assert share(model) == pytest.approx(0.5, abs=0.02)
    assert share(model, sample_weight=weight) == pytest.approx(1.0, abs=0.01)


def test_two_fits_are_the_same_and_have_keys_of_their_data():
    assert fitted()._fitted_rows == fitted()._fitted_rows
    assert fitted()._fitted_rows.key != fitted(rows=NEW)._fitted_rows.key


@pytest.mark.parametrize(
    "moved", [lambda m: m.at(0.3), copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_know_the_rows(moved):
    assert share(moved(fitted())) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("keep_moments", [True, False])
def test_a_file_keeps_the_sketch_unless_it_is_left_out(tmp_path, keep_moments):
    pytest.importorskip("skops")
    path = tmp_path / "model.skops"
    model = fitted()
    save_model(model, path, keep_moments=keep_moments)
    loaded = load_model(path)
    assert share(loaded) == share(model)
    assert loaded._fitted_rows == model._fitted_rows.shortened()
    save_model(loaded, path, keep_moments=keep_moments, row_sketch=False)
    bare = load_model(path)
    assert bare._fitted_rows is None
    assert share(bare) is None
    if keep_moments:  # rows that come later are kept again
        bare.partial_fit(NEW.X, NEW.y, sensitive_features=NEW.s)
        assert share(bare, NEW) == pytest.approx(1.0, abs=0.01)
        assert share(bare) is None


def test_labels_and_groups_are_in_no_sketch():
    one = ridge().prepare(OLD.X, OLD.y, sensitive_features=OLD.s)
    other = copy.copy(one).partial_fit(OLD.X, 1 - OLD.y, sensitive_features=1 - OLD.s)
    one.partial_fit(OLD.X, OLD.y, sensitive_features=OLD.s)
    assert one._fitted_rows == other._fitted_rows
    assert set(vars(one._fitted_rows)) == {"key", "level", "known", "hashes", "counts", "rows"}


def test_frames_and_float32_are_recognised():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(OLD.X, columns=OLD.names)
    model = ridge().fit(frame, OLD.y, sensitive_features=OLD.s)
    assert share(model, X=frame) == share(model, X=frame.astype("float32")) == 1.0
    assert share(fitted(), X=OLD.X.astype(np.float32)) == 1.0
    with_s = frame.assign(s=OLD.s)
    named = ridge().fit(with_s, OLD.y, sensitive_features="s")
    assert share(named, X=with_s, sensitive_features="s") == 1.0


def test_a_table_that_was_encoded_is_recognised():
    pd = pytest.importorskip("pandas")

    def rows(seed):
        rng = np.random.default_rng(seed)
        s, income = rng.integers(0, 2, N), rng.normal(size=N)
        frame = pd.DataFrame({"income": income, "job": rng.choice(["cook", "nurse"], N), "s": s})
        return frame.assign(y=(income + s + rng.normal(size=N) > 0).astype(int))

    old, new = rows(0), rows(1)
    model = ridge().fit_stream([old], target="y", sensitive_features="s")
    X = ["income", "job"]
    assert share(model, OLD._replace(y=old["y"], s=old["s"]), X=old[X]) == 1.0
    assert share(model, OLD._replace(y=new["y"], s=new["s"]), X=new[X]) is None
    pipe = make_pipeline(table_encoder(old[X]), ridge())
    pipe.fit(old[X], old["y"], fairridgeclassifier__sensitive_features=old["s"])
    assert share(pipe, OLD._replace(y=old["y"], s=old["s"]), X=old[X]) == 1.0


@pytest.mark.parametrize("place", ["last", "in the middle", "first"])
@defect
def test_a_pipeline_is_asked_for_its_fair_step(place):
    fair = FairRepresentation(**FIXED, n_components=10, random_state=0)
    steps = {
        "last": [StandardScaler(), ridge()],
        "in the middle": [StandardScaler(), fair, LogisticRegression()],
        "first": [fair, LogisticRegression()],
    }[place]
    name = type(next(step for step in steps if hasattr(step, "at"))).__name__.lower()
    model = make_pipeline(*steps).fit(OLD.X, OLD.y, **{f"{name}__sensitive_features": OLD.s})
    assert share(model) == pytest.approx(1.0, abs=0.01)
    assert share(model, NEW) is None


def test_the_best_model_of_a_search_is_asked():
    search = GridSearchCV(ridge(), {"alpha": [0.1, 1.0]}, cv=2)
    search.fit(OLD.X, OLD.y, sensitive_features=OLD.s)
    assert share(search) == pytest.approx(1.0, abs=0.01)


def test_a_precomputed_kernel_is_recognised_by_its_columns():
    K = rbf_kernel(OLD.X, gamma=0.5)
    model = FairRidgeClassifier(kernel="precomputed", eta=1e-3, alpha=1.0)
    model.fit(K, OLD.y, sensitive_features=OLD.s)
    assert share(model, X=K) == pytest.approx(1.0, abs=0.01)
    assert share(model, NEW, X=rbf_kernel(NEW.X, OLD.X, gamma=0.5)) is None


def test_tensors_are_recognised():
    torch = pytest.importorskip("torch")
    X = torch.tensor(OLD.X)
    model = ridge().fit(X, OLD.y, sensitive_features=OLD.s)
    assert model._fitted_rows.counts.sum() == N
    assert share(model, X=X.numpy()) == pytest.approx(1.0, abs=0.01)


def test_a_resumed_stream_keeps_the_rows_before_it_was_killed(tmp_path):
    from fairspan.streaming import Checkpoint

    path = tmp_path / "fit.ckpt"
    blocks = [tuple(part[i : i + 40] for part in OLD) for i in range(0, N, 40)]
    whole = ridge().fit_stream(blocks, checkpoint=path)
    again = ridge().fit_stream(blocks, checkpoint=path)  # nothing is left to read
    assert again._fitted_rows == whole._fitted_rows
    header, arrays = Checkpoint(path).load()
    del header["sketch"], arrays["hashes"], arrays["counts"]
    Checkpoint(path).save(header, arrays)
    old = ridge().fit_stream(blocks, checkpoint=path)  # of version 0.1.0
    assert old._fitted_rows.counts.sum() == 0


def test_a_checkpoint_with_a_damaged_sketch_is_refused(tmp_path):
    from fairspan import CheckpointError
    from fairspan.streaming import Checkpoint

    path = tmp_path / "fit.ckpt"
    ridge().fit_stream([tuple(OLD)], checkpoint=path)
    header, arrays = Checkpoint(path).load()
    Checkpoint(path).save(header, arrays | {"counts": -arrays["counts"]})
    with pytest.raises(CheckpointError, match="sketch of the rows is damaged"):
        ridge().fit_stream([tuple(OLD)], checkpoint=path)


# ------------------------------------------------------------------ determinism


@pytest.mark.regression("audit is not deterministic by default")
def test_an_audit_is_the_same_each_time():
    model = fitted()
    first, second = (
        audit(model, NEW.X, NEW.y, sensitive_features={"s": NEW.s}, parts=["scores"], n_boot=20)
        for _ in range(2)
    )
    assert first.to_json() == second.to_json()


# ------------------------------------------------------------------ the command line


@pytest.fixture
def people(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    for name, rows in (("old", OLD), ("new", NEW)):
        frame = pd.DataFrame(rows.X, columns=rows.names)
        frame.assign(sex=np.where(rows.s, "f", "m"), repaid=rows.y).to_csv(
            f"{name}.csv", index=False
        )


ASKED = ("--target", "repaid", "--protected", "sex")
PARTS = ("--parts", "scores,decisions")


@defect
def test_the_command_line_says_it_once(people, call):
    assert call("fit", "old.csv", *ASKED, "--model", "ridge-classifier").code == 0
    done = call("audit", "old.csv", *ASKED, "--model", "model.skops", *PARTS, "--json", "a.json")
    assert done.code == 0
    assert (done.out + done.err).count("used for fitting") == 1
    assert WORDS in done.out.splitlines()[1]
    with open("a.json", encoding="utf-8") as file:
        assert WORDS in json.load(file)["warnings"][0]


def test_held_out_and_new_rows_are_audited_without_a_word(people, call):
    done = call("fit", "old.csv", *ASKED, "--model", "ridge-classifier", "--audit", *PARTS)
    assert done.code == 0
    again = call("audit", "new.csv", *ASKED, "--model", "model.skops", *PARTS)
    assert again.code == 0
    assert "used for fitting" not in done.out + done.err + again.out + again.err
