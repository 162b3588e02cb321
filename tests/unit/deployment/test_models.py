"""Files predict as their models: estimators, kernels, dial values and decision rules."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge

from fairspan import (
    FairClassifier,
    FairEraser,
    FairGPClassifier,
    FairGPRegressor,
    FairPostprocessor,
    FairRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    export,
)
from fairspan.deployment import read_npz_model
from fairspan.deployment.models import write_program
from fairspan.exceptions import ExportError

N = 240


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, N)
    X = rng.normal(size=(N, 3)) + s[:, None] * [1.0, 0.0, 0.5]
    signal = X[:, 0] + 0.5 * X[:, 1] ** 2
    targets = {
        "numbers": signal + 0.1 * rng.normal(size=N),
        "two": np.where(signal > np.median(signal), "yes", "no"),
        "three": np.digitize(signal, np.quantile(signal, [0.3, 0.7])) * 10,
    }
    return X, targets, s, single_precision(rng.normal(size=(50, 3)) * 1.5)


def single_precision(X):
    """Numbers that float32 has."""
    return X.astype(np.float32).astype(np.float64)


def fitted(model, data, target):
    X, targets, s, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, targets[target], sensitive_features=s)


def expected(model, X):
    if isinstance(model, FairRepresentation):
        return {"variable": model.transform(X)}
    if not hasattr(model, "classes_"):
        return {"variable": model.predict(X)[:, None]}
    out = {"label": model.predict(X), "decision_function": model.decision_function(X)}
    if hasattr(model, "predict_proba"):
        out["probabilities"] = model.predict_proba(X)
    return out


def check(model, X, tmp_path, tolerance=1e-9):
    """Both files have the outputs of the model, on these rows and on one row alone."""
    wanted = expected(model, X)
    path = tmp_path / "model.npz"
    written = export(model, path, check=X)
    assert written.rows_checked == len(X)
    assert written.largest_difference <= tolerance
    score = read_npz_model.load(path)
    compare(score(X), wanted, tolerance)
    compare(score(X[:1]), {name: values[:1] for name, values in wanted.items()}, tolerance)
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    for dtype, limit in (("float64", tolerance), ("float32", 1e-5)):
        written = export(model, tmp_path / "model.onnx", dtype=dtype, check=X)
        assert written.largest_difference <= limit
        assert set(written.outputs) == set(wanted)
        single = model_outputs(tmp_path / "model.onnx", X[:1].astype(dtype))
        compare(single, {name: v[:1] for name, v in wanted.items() if name != "label"}, 1e-5)
    return written


def model_outputs(path, X):
    from fairspan.deployment.checking import run_onnx

    return run_onnx(path, {"X": X})


def compare(found, wanted, tolerance):
    for name, values in wanted.items():
        assert found[name].shape == values.shape, name
        if name == "label":
            assert (found[name] == values).all()
        else:
            size = max(1.0, np.abs(values).max())
            np.testing.assert_allclose(found[name], values, atol=tolerance * size, rtol=0.0)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("rbf", {}),
        ("rbf", {"n_components": 40}),
        ("laplacian", {}),
        ("linear", {}),
        ("poly", {"kernel_params": {"degree": 2}}),
        ("polynomial", {"kernel_params": {"degree": 5, "coef0": 0.5}, "gamma": 0.1}),
        ("cosine", {}),
    ],
)
def test_kernels(kernel, options, data, tmp_path):
    check(fitted(FairRidge(kernel, random_state=0, **options), data, "numbers"), data[3], tmp_path)


def test_chi2_and_precomputed_kernels(data, tmp_path):
    X, targets, s, X_new = data
    positive = FairRidge("chi2", random_state=0).fit(
        np.abs(X), targets["numbers"], sensitive_features=s
    )
    check(positive, np.abs(X_new), tmp_path)
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    K_new = single_precision(np.exp(-0.2 * ((X_new[:, None] - X) ** 2).sum(axis=2)))
    given = FairRidge("precomputed", random_state=0).fit(
        K, targets["numbers"], sensitive_features=s
    )
    check(given, K_new, tmp_path)


@pytest.mark.parametrize("target", ["two", "three"])
@pytest.mark.parametrize(
    "model",
    [
        FairRidgeClassifier(random_state=0),
        FairRidgeClassifier(random_state=0, removal="training_rows", subspace="fair"),
        FairGPClassifier(random_state=0),
        FairGPClassifier(random_state=0, removal="training_rows"),
        FairGPClassifier(random_state=0, removal="training_rows", calibrate=False),
        FairGPClassifier(random_state=0, subspace="fair", n_components=60),
        FairGPClassifier(random_state=0, likelihood="gaussian"),
        FairClassifier("linear", random_state=0),
    ],
    ids=lambda model: f"{model!r}"[:60],
)
def test_classes(model, target, data, tmp_path):
    model = fitted(model, data, target)
    check(model, data[3], tmp_path)
    check(model.at(0.4), data[3], tmp_path)


@pytest.mark.parametrize("target", ["two", "three"])
@pytest.mark.parametrize(
    "options",
    [{}, {"pos_label": "no"}, {"selection_rate": 0.3}, {"criterion": "equalized_odds"}],
    ids=str,
)
def test_decision_rules(options, target, data, tmp_path):
    if target == "three" and ("pos_label" in options or "selection_rate" in options):
        pytest.skip("these are for two classes")
    model = FairRidgeClassifier(equalize="decisions", random_state=0, **options)
    model = fitted(model, data, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for at in (model, model.at(0.5), model.at(0.0), model.at(min_ratio=0.5)):
            check(at, data[3], tmp_path)


def test_rows_on_the_boundary_of_a_rule_get_its_decision(tmp_path):
    """The multipliers leave equal rows exactly on the boundary, where rounding must not decide."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 600)
    X = np.stack([rng.integers(0, 3, 600) + s, rng.integers(0, 2, 600)], axis=1).astype(float)
    y = (X.sum(axis=1) + rng.normal(size=600) > 1.8).astype(int)
    for favourable in (0, 1):
        model = FairRidgeClassifier(
            kernel="linear", equalize="decisions", pos_label=favourable, random_state=0
        ).fit(X, y, sensitive_features=s)
        cells = np.unique(X, axis=0)
        for fairness in np.linspace(0.0, 1.0, 6):
            check(model.at(fairness), cells, tmp_path)


@pytest.mark.parametrize("favourable", ["yes", "no"])
def test_a_margin_of_0_up_to_rounding_is_0_in_files(favourable, data, tmp_path):
    """The threshold is moved next to the margin of a row."""
    from dataclasses import replace

    model = fitted(
        FairRidgeClassifier(
            kernel="linear", equalize="decisions", selection_rate=0.4, pos_label=favourable
        ),
        data,
        "two",
    )
    X_new = data[3]
    state = model._fit_state
    margin = model.decision_function(X_new)[7] * (1.0 if favourable == "yes" else -1.0)
    rule = replace(state.rule.rule, threshold=state.rule.rule.threshold + margin - 1e-13)
    model._state = replace(state, rule=replace(state.rule, rule=rule))
    assert abs(model.decision_function(X_new)[7]) < 1e-300
    assert model.predict(X_new)[7] != favourable
    check(model, X_new, tmp_path)
    out = read_npz_model.load(tmp_path / "model.npz")(X_new)
    assert out["decision_function"][7] == model.decision_function(X_new)[7]


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (FairRepresentation(random_state=0), "three"),
        (FairRepresentation(random_state=0, subspace="fair"), "two"),
        (FairGPRegressor(random_state=0, n_components=50), "numbers"),
        (FairGPRegressor(random_state=0, mean="linear", n_components=30), "numbers"),
        (FairRegressor("kernel", random_state=0), "numbers"),
        (FairRegressor([Ridge(), "linear"], random_state=0), "numbers"),
        (FairClassifier(LogisticRegression(), random_state=0, refit=True), "three"),
        (FairClassifier(["kernel", "linear"], equalize="decisions", random_state=0), "two"),
    ],
    ids=lambda value: f"{value!r}"[:50],
)
def test_other_models(model, target, data, tmp_path):
    check(fitted(model, data, target), data[3], tmp_path, tolerance=1e-8)


def test_a_saved_model_is_exported(data, tmp_path):
    pytest.importorskip("skops")
    from fairspan import load_model, save_model

    model = fitted(FairGPClassifier(random_state=0), data, "two")
    save_model(model, tmp_path / "model.skops")
    check(load_model(tmp_path / "model.skops"), data[3], tmp_path)


def test_several_attributes_and_control_features(data, tmp_path):
    X, targets, s, X_new = data
    strata = np.arange(N) % 2
    model = FairRidge(criterion="conditional_statistical_parity", random_state=0).fit(
        X, targets["numbers"], sensitive_features=s, control_features=strata
    )
    check(model, X_new, tmp_path)


def test_probit_tails_are_exact():
    """The logarithm of the normal distribution function, from -40 to 40 standard deviations."""
    import scipy.special

    from fairspan.deployment.models import log_normal
    from fairspan.deployment.program import Program

    program = Program()
    x = program.input("X", "matrix", 1)
    program.output("variable", log_normal(program, x))
    z = np.concatenate([np.linspace(-40.0, 40.0, 801), [-1e-9, 0.0, 1e-300]])[:, None]
    known = {"i0": z, **program.constants}
    for step in program.steps:
        values = [known[a] if isinstance(a, str) else a for a in step.arguments]
        known[step.result] = read_npz_model.OPS[step.operation](*values)
    exact = scipy.special.log_ndtr(z)
    np.testing.assert_allclose(known[program.outputs["variable"]], exact, rtol=1e-13, atol=1e-15)


# ------------------------------------------------------------------ refusals


def a_kernel(X, Z):
    return X @ Z.T


def test_what_cannot_be_written_is_named(data):
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, targets, _, _ = data
    frozen = LogisticRegression().fit(X, targets["two"])
    forest = RandomForestRegressor(2, random_state=0)
    cases = [
        (FairRidge(a_kernel), "numbers", "the kernel 'a_kernel', a function of yours"),
        (FairRidge(feature_map=Nystroem(n_components=5, random_state=0)), "numbers", "Nystroem"),
        (FairRegressor(forest), "numbers", "the learner RandomForestRegressor"),
        (FairRegressor(DummyRegressor()), "numbers", "the learner DummyRegressor"),
        (FairPostprocessor(frozen, sensitive_estimator="linear"), "two", "FairPostprocessor"),
    ]
    for model, target, part in cases:
        with pytest.raises(
            ExportError, match=rf"export cannot write .*{part}.*\. (Fit|Kernels|Learn|Exp)"
        ):
            write_program(fitted(model, data, target))
    with pytest.raises(ExportError, match=r"a Pipeline. .*export the last step"):
        write_program(make_pipeline(StandardScaler(), FairRidge()))
    with pytest.raises(ExportError, match="a RandomForestRegressor"):
        write_program(forest)


@pytest.mark.parametrize(
    "model",
    [
        FairRidgeClassifier(random_state=0),
        FairRidgeClassifier(random_state=0, equalize="decisions"),
        FairGPClassifier(random_state=0),
        FairClassifier(
            HistGradientBoostingClassifier(max_iter=5, random_state=0),
            random_state=0,
            equalize="decisions",
        ),
    ],
    ids=lambda model: f"{model!r}"[:60],
)
@pytest.mark.parametrize("target", ["two", "three"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_no_decision_for_numbers_that_the_model_refuses(model, target, number, data, tmp_path):
    """An ONNX file cannot raise: numbers are NaN, and the label is the first class."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model = fitted(model, data, target)
    X = data[3][:20].copy()
    wanted = expected(model, X)
    X[3, 1] = number
    with pytest.raises(ValueError, match=r"NaN|infinit"):
        model.predict(X)
    export(model, tmp_path / "model.onnx", dtype="float64")
    found = model_outputs(tmp_path / "model.onnx", X)
    for name in ("probabilities", "decision_function"):
        if name in wanted:
            assert np.isnan(found[name][3]).all()
    assert found["label"][3] == model.classes_[0]
    others = np.arange(len(X)) != 3
    compare(
        {name: values[others] for name, values in found.items()},
        {name: values[others] for name, values in wanted.items()},
        1e-9,
    )


def test_short_rows_with_the_cosine_kernel(data, tmp_path):
    """scikit-learn leaves rows shorter than 10 times the precision as they are."""
    model = fitted(FairRidge("cosine", random_state=0), data, "numbers")
    unit = data[3][0] / np.linalg.norm(data[3][0])
    sizes = np.array([0.0, 1e-16, 1e-15, 2.2e-15, 2.3e-15, 1e-3, 1e9])
    wanted = model.predict(sizes[:, None] * unit)
    assert abs(wanted[1] - wanted[-1]) > 1e-3
    check(model, sizes[:, None] * unit, tmp_path, tolerance=1e-9)


def test_an_eraser_is_refused_by_name(data):
    eraser = FairEraser().fit(data[0], sensitive_features=data[2])
    with pytest.raises(ExportError, match=r"FairEraser.*matrix"):
        write_program(eraser)
