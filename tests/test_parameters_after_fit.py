"""Parameters that change after a fit: what continues from a fit refuses, what predicts goes on."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)
from fairspan.estimators.path import fairness_path
from tests.support.small import FIXED, table

defect = pytest.mark.regression("a certificate of what was never fitted")
CHANGED = "was changed after the fit"
X, Y, S = table(90)
ROWS = {"X": X, "y": Y, "sensitive_features": S}


def ridge(**params):
    return FairRidgeClassifier(**FIXED, n_components=10, random_state=0, **params)


def changed(est, **params):
    return est.set_params(**(params or {"criterion": "equalized_odds"}))


def save(est, path):
    pytest.importorskip("skops")
    save_model(est, path / "model.skops")


def select(est, _):
    path = FairnessPath.from_estimator(est, **ROWS, n_points=3)
    changed(path.estimator)
    path.select(at_most=1.0, confidence=None)


CONTINUED = {
    "at": lambda est, _: changed(est).at(1.0),
    "at a limit": lambda est, _: changed(est).at(max_correlation=0.1),
    "solve": lambda est, _: changed(est).solve(),
    "partial_fit": lambda est, _: changed(est).partial_fit(**ROWS),
    "partial_fit without solve": lambda est, _: changed(est).partial_fit(**ROWS, solve=False),
    "merge": lambda est, _: changed(est).merge(ridge().fit(**ROWS)),
    "merge of a changed worker": lambda est, _: ridge().fit(**ROWS).merge(changed(est)),
    "save_model": lambda est, folder: save(changed(est), folder),
    "a path": lambda est, _: FairnessPath.from_estimator(changed(est), **ROWS, n_points=3),
    "select": select,
}


@pytest.mark.parametrize("continued", CONTINUED)
@defect
def test_a_changed_criterion_needs_a_fit(continued, tmp_path):
    est = ridge().fit(**ROWS)
    before = est.certificate_
    with pytest.raises(ValueError, match=f"criterion {CHANGED}.*statistical_parity.*equalized"):
        CONTINUED[continued](est, tmp_path)
    assert est.certificate_ is before
    assert not list(tmp_path.iterdir())


@defect
def test_a_second_pass_refuses_a_changed_likelihood():
    est = FairGPClassifier(**FIXED, n_components=10, random_state=0).fit(**ROWS)
    with pytest.raises(ValueError, match=f"class_weight {CHANGED}"):
        est.set_params(class_weight="balanced").fit_head([(X, Y, S)])


@defect
def test_a_prepared_estimator_refuses_changes_too():
    est = ridge().prepare(**ROWS)
    est.criterion = "equalized_odds"
    with pytest.raises(ValueError, match=f"criterion {CHANGED}"):
        est.partial_fit(**ROWS)


@defect
def test_a_stream_records_the_parameters_of_its_fit():
    est = ridge().fit_stream([(X, Y, S)])
    est.alpha = 3.0
    with pytest.raises(ValueError, match=rf"alpha {CHANGED} \(fitted with 1.0, now 3.0\)"):
        est.at(0.5)


def test_fairness_dial_and_verbose_may_change():
    est = ridge().fit(**ROWS)
    wanted = est.at(0.3, dial="cosine").predict(X)
    est.set_params(fairness=0.3, dial="cosine", verbose=0)
    assert est.certificate_.fairness == 1.0  # until the model is solved again
    est.solve()
    assert est.certificate_.fairness == 0.3
    assert (est.predict(X) == wanted).all()


def test_a_parameter_that_is_set_back_is_no_change():
    est = ridge().fit(**ROWS)
    changed(est)
    est.set_params(criterion="statistical_parity").at(0.5)


def test_a_new_fit_has_the_new_parameters():
    est = changed(ridge().fit(**ROWS)).fit(**ROWS)
    assert est.at(0.5).certificate_.criterion == "equalized_odds"


# ------------------------------------------------------------------ values that are not plain


def polynomial(x, z):
    return (1.0 + x @ z.T) ** 2


class Scaled:
    """A callable without a definition of equality."""

    def __call__(self, x):
        return 2.0 * x


def mapped(feature_map):
    return FairRidgeClassifier(feature_map=feature_map, eta=1e-3, alpha=1.0).fit(**ROWS)


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": polynomial, "gamma": "cv"},
        {"kernel": "polynomial", "kernel_params": {"degree": 2}},
        {"landmarks": X[:7]},
        {"landmarks": X[:7].tolist()},
        {"sensitive_kind": ["categorical"]},
        {"random_state": np.random.RandomState(0)},
        {"n_components": np.int64(10)},
    ],
    ids=lambda params: next(iter(params)),
)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_values_of_every_kind_are_recognised(params, copied):
    est = FairRidgeClassifier(**{**FIXED, "random_state": 0, **params})
    est.fit(**ROWS)
    copied(est).at(0.5)
    est.set_params(**params).at(0.5)


@pytest.mark.parametrize(
    "feature_map",
    [
        RBFSampler(random_state=0),
        make_pipeline(FunctionTransformer(Scaled()), RBFSampler(random_state=0)),
    ],
    ids=["transformer", "pipeline"],
)
def test_a_feature_map_is_compared_by_its_parameters(feature_map):
    est = mapped(feature_map)
    est.at(0.5)
    pickle.loads(pickle.dumps(est)).at(0.5)
    est.set_params(feature_map=clone(feature_map))
    if not hasattr(feature_map, "steps"):  # a clone copies functions, which then differ
        est.at(0.5)


@pytest.mark.parametrize("nested", ["feature_map__gamma", "feature_map__rbfsampler__gamma"])
@defect
def test_a_parameter_inside_the_feature_map_counts(nested):
    one = RBFSampler(random_state=0)
    est = mapped(one if nested.count("__") == 1 else make_pipeline(one))
    with pytest.raises(ValueError, match=f"feature_map {CHANGED}"):
        est.set_params(**{nested: 2.0}).at(0.5)


@pytest.mark.parametrize("params", [{"landmarks": X[:7].copy()}, {"kernel_params": {"degree": 2}}])
@defect
def test_a_change_in_place_is_found(params):
    kernel = {"kernel": "polynomial", "gamma": 1.0} if "kernel_params" in params else {}
    est = FairRidgeClassifier(**{**FIXED, **kernel}, **params).fit(**ROWS)
    (name, value), *_ = params.items()
    value[0 if name == "landmarks" else "degree"] = 3
    with pytest.raises(ValueError, match=f"{name} {CHANGED}"):
        est.at(0.5)


# ------------------------------------------------------------------ predictions


def outputs(est, *, evidence=True):
    """Everything a model says about rows."""
    calls = {
        "predict": lambda: est.predict(X),
        "predict_proba": lambda: est.predict_proba(X),
        "decision_function": lambda: est.decision_function(X),
        "transform": lambda: est.transform(X),
        "kernel_": lambda: est.kernel_(X),
        "deviation_bound": lambda: est.deviation_bound(X),
        "sample_y": lambda: est.sample_y(X, 2),
        "log_marginal_likelihood": lambda: est.log_marginal_likelihood(eval_gradient=True)[1],
    }
    if not evidence:
        del calls["log_marginal_likelihood"]
    out = {name: call() for name, call in calls.items() if hasattr(est, name)}
    if hasattr(est, "sample_y"):
        out["std"] = est.predict(X, return_std=True)[1]
        if evidence:
            out["prior"] = est.sample_y(X, 2, prior=True)
    return out


OTHER = {
    "kernel": "laplacian", "gamma": 2.0, "n_components": 3, "landmarks": "rpcholesky",
    "criterion": "equalized_odds", "n_slices": 4, "intersectional": True, "eta": 1.0, "alpha": 7.0,
    "subspace": "fair", "method": "rkhs", "missing_sensitive": "omit", "random_state": 5,
    "fairness": 0.2, "dial": "cosine", "likelihood": "gaussian", "calibrate": False,
    "curvature": "constant", "class_weight": {0: 1.0, 1: 9.0}, "prior": "ard",
    "inference": "em-paper", "mean": "linear", "removal": "auto",
}  # fmt: skip


@pytest.mark.parametrize(
    "make", [FairRepresentation, FairRidge, FairRidgeClassifier, FairGPRegressor, FairGPClassifier]
)
@pytest.mark.parametrize("removal", ["new_rows", "training_rows"])
def test_predictions_read_no_parameter_that_was_changed(make, removal):
    est = make(**FIXED, n_components=10, random_state=0, removal=removal)
    est.fit(X, Y.astype(float) if make in (FairRidge, FairGPRegressor) else Y, sensitive_features=S)
    evidence = removal == "training_rows"
    before = outputs(est, evidence=evidence)
    known = est.get_params(deep=False)
    est.set_params(**{name: value for name, value in OTHER.items() if name in known})
    for name, value in outputs(est, evidence=evidence).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_probabilities_of_the_fair_prior_keep_their_class_weights():
    est = FairGPClassifier(**FIXED, subspace="fair", random_state=0).fit(**ROWS)
    before = est.predict_proba(X)
    est.set_params(subspace="model", class_weight="balanced", likelihood="gaussian")
    np.testing.assert_array_equal(est.predict_proba(X), before)


# ------------------------------------------------------------------ copies and files


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_a_copy_remembers_the_fit(copied):
    est = changed(copied(ridge().fit(**ROWS)))
    with pytest.raises(ValueError, match=CHANGED):
        est.at(0.5)
    assert clone(est).fit(**ROWS).at(0.5).certificate_.criterion == "equalized_odds"


def test_a_loaded_model_was_fitted_with_the_parameters_in_its_file(tmp_path):
    pytest.importorskip("skops")
    est = ridge().set_params(random_state=np.random.RandomState(0))
    save_model(est.fit(**ROWS), tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    loaded.at(0.5)
    save_model(loaded, tmp_path / "again.skops")
    with pytest.raises(ValueError, match=f"criterion {CHANGED}"):
        changed(loaded).at(0.5)


def test_a_model_without_the_record_takes_its_parameters_as_fitted():
    est = ridge().fit(**ROWS)
    state = est.__getstate__()
    fitted = copy.copy(state["_state"])
    for name in ("config", "given"):  # as in a file
        del fitted.__dict__[name]
    state["_state"] = fitted
    old = FairRidgeClassifier.__new__(FairRidgeClassifier)
    old.__setstate__(state)
    old.at(0.5)
    with pytest.raises(ValueError, match=CHANGED):
        changed(old).at(0.5)


def test_the_path_of_a_changed_estimator_is_that_of_its_new_parameters():
    est = changed(ridge(removal="training_rows").fit(**ROWS))
    assert fairness_path(est, **ROWS, cv=2, n_points=3).cells == ["y=0", "y=1"]
