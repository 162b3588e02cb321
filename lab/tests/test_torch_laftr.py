"""LAFTR: the training against a finite-difference oracle, the estimators, the golden table."""

import pickle
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

from tests.golden import laftr as golden  # noqa: E402

from fairspan.exceptions import DataWarning  # noqa: E402
from fairspan_lab.baselines import _laftr_networks as networks  # noqa: E402
from fairspan_lab.baselines.laftr import LAFTR, LAFTRGP, laftr_sweep  # noqa: E402

CRITERIA = ("statistical_parity", "equalized_odds", "equal_opportunity")
SHORT = {"epochs": 3, "batch_size": 32, "random_state": 0}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def planted(n=200, seed=0):
    """Labels that lean on a proxy of S and on a column without it."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += 2.0 * s - 1.0
    y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n) > 0
    return X, np.where(y, "yes", "no"), np.where(s == 1, "b", "a")


X, y, s = planted()


def schedule(**changes):
    sizes = {"n_hidden": 3, "n_representation": 2, "epochs": 2, "batch_size": 8}
    steps = {"learning_rate": 0.05, "reshuffle": False, "drop_last": True, "verbose": 0}
    return networks.Schedule(**{**sizes, **steps, **changes})


def parts(layers):
    return list(vars(layers).values())


def all_parts(model):
    return [p for net in (model.encoder, model.classifier, model.adversary) for p in parts(net)]


# --------------------------------------------------------------------------- training


def oracle_loss(kind, p, truth):
    if kind == "l1":
        return np.abs(truth - p)
    return -(truth * np.log(p) + (1.0 - truth) * np.log(1.0 - p))


def oracle_weights(criterion, y, a):
    """By counting: n over the number of rows like this one."""
    if criterion == "statistical_parity":
        return np.array([len(a) / np.sum(a == g) for g in a])
    w = np.array([len(a) / np.sum((a == g) & (y == v)) for g, v in zip(a, y, strict=True)])
    return w * (y == 1) if criterion == "equal_opportunity" else w


def oracle_train(X, y, a, setting, plan):
    """Alternating Adam with central differences: slow, and nothing of the library's training."""

    def mlp(layers, rows):
        hidden = rows @ layers[0] + layers[1]
        return np.maximum(hidden, 0.2 * hidden) @ layers[2] + layers[3]

    def sigmoid(t):
        return 1.0 / (1.0 + np.exp(-t))

    def class_loss(encoder, classifier, rows):
        p = sigmoid(mlp(classifier, mlp(encoder, X[rows]))[:, 0])
        return oracle_loss(setting.loss, p, y[rows]).mean()

    def fair_loss(encoder, adversary, rows):
        z = mlp(encoder, X[rows])
        if setting.criterion != "statistical_parity":
            z = np.column_stack([z, y[rows]])
        p = sigmoid(mlp(adversary, z)[:, 0])
        return (weights[rows] * oracle_loss(setting.loss, p, a[rows])).mean()

    def gradient(function, arrays):
        out = []
        for array in arrays:
            slope = np.zeros_like(array)
            for at in np.ndindex(array.shape):
                kept = array[at]
                array[at] = kept + 1e-6
                up = function()
                array[at] = kept - 1e-6
                slope[at] = (up - function()) / 2e-6
                array[at] = kept
            out.append(slope)
        return out

    def adam(arrays, slopes, state, t):
        for array, slope, (m, v) in zip(arrays, slopes, state, strict=True):
            m[:] = 0.9 * m + 0.1 * slope
            v[:] = 0.999 * v + 0.001 * slope**2
            array -= plan.learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)

    start = networks.initial_networks(setting, X.shape[1], plan)
    encoder, classifier, adversary = (
        [p.copy() for p in parts(net)] for net in (start.encoder, start.classifier, start.adversary)
    )
    weights = oracle_weights(setting.criterion, y, a)
    gamma = setting.fair_weight
    both = encoder + classifier
    state = [(np.zeros_like(p), np.zeros_like(p)) for p in both]
    other = [(np.zeros_like(p), np.zeros_like(p)) for p in adversary]
    t = 0
    for epoch in networks.batches(len(X), plan):
        for rows in epoch:
            t += 1
            slopes = gradient(
                lambda rows=rows: (
                    class_loss(encoder, classifier, rows)
                    - gamma * fair_loss(encoder, adversary, rows)
                ),
                both,
            )
            adam(both, slopes, state, t)
            slopes = gradient(
                lambda rows=rows: gamma * fair_loss(encoder, adversary, rows), adversary
            )
            adam(adversary, slopes, other, t)
    return both + adversary


def small():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(20, 2))
    labels, group = np.tile([0.0, 0.0, 1.0, 1.0, 1.0], 4), np.tile([0.0, 1.0, 0.0, 1.0, 1.0], 4)
    return rows, labels, group


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("loss", ["l1", "cross_entropy"])
def test_training_is_alternating_adam_on_the_stated_losses(loss, criterion):
    data, plan = small(), schedule()
    setting = networks.Setting(loss, criterion, 0.7, 11)
    (found,) = networks.fit_many(*data, [setting], plan)
    for got, want in zip(all_parts(found), oracle_train(*data, setting, plan), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_stacked_models_are_what_each_is_alone():
    data, plan = small(), schedule(epochs=20)
    settings = [
        networks.Setting(loss, criterion, weight, seed)
        for loss in ("l1", "cross_entropy")
        for criterion in CRITERIA
        for weight, seed in ((0.0, 0), (0.5, 0), (2.0, 1))
    ]
    for setting, model in zip(settings, networks.fit_many(*data, settings, plan), strict=True):
        (alone,) = networks.fit_many(*data, [setting], plan)
        for got, want in zip(all_parts(model), all_parts(alone), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_weight_zero_leaves_the_adversary_alone(criterion):
    data, plan = small(), schedule()
    setting = networks.Setting("l1", criterion, 0.0, 5)
    (found,) = networks.fit_many(*data, [setting], plan)
    start = networks.initial_networks(setting, 2, plan)
    for got, want in zip(parts(found.adversary), parts(start.adversary), strict=True):
        np.testing.assert_array_equal(got, want)
    assert not np.allclose(found.encoder.weight1, start.encoder.weight1)


@pytest.mark.parametrize(("criterion", "mean"), list(zip(CRITERIA, (2.0, 4.0, 2.0), strict=True)))
def test_weights_are_inverse_shares_of_cells(criterion, mean):
    _, labels, group = small()
    weights = networks.cell_weights(criterion, labels, group)
    np.testing.assert_allclose(weights, oracle_weights(criterion, labels, group))
    assert weights.mean() == pytest.approx(mean)
    if criterion == "equal_opportunity":
        assert not weights[labels == 0].any()


def test_initial_weights_are_glorot_uniform():
    plan = schedule(n_hidden=400, n_representation=300)
    start = networks.initial_networks(networks.Setting("l1", "equalized_odds", 1.0, 0), 50, plan)
    shapes = [p.shape for p in all_parts(start)]
    assert shapes[8:] == [(301, 400), (400,), (400, 1), (1,)]
    for weight, fans in ((start.encoder.weight1, 450), (start.encoder.weight2, 700)):
        assert np.abs(weight).max() == pytest.approx(np.sqrt(6 / fans), rel=1e-2)
        assert weight.std() == pytest.approx(np.sqrt(2 / fans), rel=2e-2)
    assert np.abs(start.encoder.bias1).max() == pytest.approx(np.sqrt(3 / 400), rel=2e-2)


def test_settings_with_one_seed_start_from_one_place():
    plan = schedule()
    first, other = (
        networks.initial_networks(networks.Setting("l1", criterion, 1.0, 4), 2, plan)
        for criterion in CRITERIA[:2]
    )
    for got, want in zip(all_parts(first)[:8], all_parts(other)[:8], strict=True):
        np.testing.assert_array_equal(got, want)


def test_batches_as_published_and_otherwise():
    published = list(networks.batches(20, schedule(epochs=3)))
    assert [[len(b) for b in epoch] for epoch in published] == [[8, 8]] * 3
    np.testing.assert_array_equal(published[0], published[2])
    whole = list(networks.batches(20, schedule(epochs=3, drop_last=False, reshuffle=True)))
    assert [[len(b) for b in epoch] for epoch in whole] == [[8, 8, 4]] * 3
    assert not np.array_equal(whole[0][0], whole[1][0])
    for epoch in whole:
        np.testing.assert_array_equal(np.sort(np.concatenate(epoch)), np.arange(20))
    ((few,),) = networks.batches(5, schedule(epochs=1))
    np.testing.assert_array_equal(np.sort(few), np.arange(5))


# --------------------------------------------------------------------------- LAFTR


def correlation(score, group):
    return abs(np.corrcoef(score, group == "b")[0, 1])


@pytest.mark.parametrize(("loss", "weight"), [("l1", 0.5), ("cross_entropy", 2.0)])
def test_the_adversary_lowers_the_correlation(loss, weight):
    rows, labels, group = planted(512, seed=1)
    sweep = laftr_sweep(
        LAFTR(loss=loss, epochs=100, learning_rate=3e-3), rows, labels, sensitive_features=group,
        fair_weights=(0.0, weight), random_states=range(3),
    )  # fmt: skip
    fitted = list(sweep)
    found = [correlation(m.decision_function(rows, group), group) for m in fitted]
    assert np.mean(found[:3]) > 0.5
    assert np.mean(found[3:]) < 0.75 * np.mean(found[:3])
    assert np.mean([m.score(rows, labels, sensitive_features=group) for m in fitted[:3]]) > 0.85


def test_outputs_belong_together():
    model = LAFTR(**SHORT)
    z = model.fit_transform(X, y, sensitive_features=s)
    np.testing.assert_array_equal(z, model.transform(X, s))
    assert z.shape == (200, 8)
    score, p = model.decision_function(X, s), model.predict_proba(X, s)
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-score)))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_, ["no", "yes"])
    np.testing.assert_array_equal(model.predict(X, s), np.where(score > 0, "yes", "no"))
    assert model.score(X, y, sensitive_features=s) == np.mean(model.predict(X, s) == y)
    assert list(model.get_feature_names_out()) == [f"laftr{i}" for i in range(8)]


def test_sensitive_attribute_is_read_as_the_groups_of_fit():
    model = LAFTR(**SHORT).fit(X, y, sensitive_features=s)
    coded = LAFTR(**SHORT).fit(X, y, sensitive_features=(s == "b").astype(int))
    few = np.array([0, 1]), np.array(["b", "b"])
    np.testing.assert_array_equal(
        model.transform(X[few[0]], few[1]), coded.transform(X[few[0]], [1, 1])
    )
    assert not np.allclose(model.transform(X, s), model.transform(X, np.where(s == "a", "b", "a")))


def test_without_the_attribute_it_is_not_read():
    model = LAFTR(use_sensitive=False, **SHORT).fit(X, y, sensitive_features=s)
    assert not model.reads_sensitive_at_predict
    assert LAFTR().reads_sensitive_at_predict
    np.testing.assert_array_equal(model.transform(X), model.transform(X, s))
    assert model.networks_.encoder.weight1.shape == (4, 8)


def test_favourable_class():
    """Protecting "no" is protecting the second class of the labels in the other order."""
    setting = {"criterion": "equal_opportunity", **SHORT}
    first = LAFTR(pos_label="no", **setting).fit(X, y, sensitive_features=s)
    turned = LAFTR(**setting).fit(X, np.where(y == "no", 1, 0), sensitive_features=s)
    np.testing.assert_array_equal(first.decision_function(X, s), -turned.decision_function(X, s))
    np.testing.assert_array_equal(first.predict(X, s) == "no", turned.predict(X, s) == 1)


@pytest.mark.parametrize("model", [LAFTR(**SHORT), LAFTRGP(**SHORT, max_hyper_rows=100)])
def test_seeds_and_copies(model):
    first = clone(model).fit(X, y, sensitive_features=s).decision_function(X, s)
    again = clone(model).fit(X, y, sensitive_features=s)
    np.testing.assert_array_equal(first, again.decision_function(X, s))
    stored = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(first, stored.decision_function(X, s))
    other = clone(model).set_params(random_state=1).fit(X, y, sensitive_features=s)
    assert not np.allclose(first, other.decision_function(X, s))


def test_prediction_needs_no_torch(monkeypatch):
    model = LAFTR(**SHORT).fit(X, y, sensitive_features=s)
    before = model.predict_proba(X, s)
    monkeypatch.setitem(sys.modules, "torch", None)
    np.testing.assert_array_equal(before, model.predict_proba(X, s))
    with pytest.raises(ImportError, match=r"pip install 'fairspan\[torch\]'"):
        LAFTR(**SHORT).fit(X, y, sensitive_features=s)


def test_verbose_prints_losses(capsys):
    LAFTR(**{**SHORT, "verbose": 1}).fit(X, y, sensitive_features=s)
    assert capsys.readouterr().out.count("mean loss") == 3


def test_routing():
    model = make_pipeline(StandardScaler(), LAFTR(**SHORT))
    with sklearn.config_context(enable_metadata_routing=True):
        model.fit(X, y, sensitive_features=s)
        assert model.predict(X, sensitive_features=s).shape == y.shape
        params = {"sensitive_features": s}
        found = cross_validate(
            LAFTR(use_sensitive=False, **SHORT), X, y, cv=2, params=params, error_score="raise"
        )
    assert np.isfinite(found["test_score"]).all()


def test_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("pqrt"))
    group = pandas.Series(s, name="sex")
    model = LAFTR(**SHORT).set_output(transform="pandas").fit(frame, y, sensitive_features=group)
    shown = model.transform(frame, group)
    assert list(shown.columns) == [f"laftr{i}" for i in range(8)]
    np.testing.assert_array_equal(shown, LAFTR(**SHORT).fit_transform(X, y, sensitive_features=s))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"p": "o"}), group)


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"criterion": "calibration"}, "criterion='calibration' is unknown"),
        ({"criterion": "conditional_statistical_parity"}, "criterion="),
        ({"loss": "hinge"}, "loss='hinge' is not allowed"),
        ({"fair_weight": -1.0}, "fair_weight=-1.0 is not allowed"),
        ({"epochs": 0}, "epochs=0 is not allowed"),
        ({"batch_size": 1.5}, "batch_size=1.5 is not allowed"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 is not allowed"),
        ({"use_sensitive": "yes"}, "use_sensitive='yes' is not allowed"),
        ({"pos_label": "maybe"}, "pos_label='maybe' is not allowed"),
    ],
)
@pytest.mark.parametrize("kind", [LAFTR, LAFTRGP])
def test_parameters_are_checked(kind, change, message):
    with pytest.raises(ValueError, match=message):
        kind(**{**SHORT, **change}).fit(X, y, sensitive_features=s)


def test_data_are_checked():
    model = LAFTR(**SHORT)
    with pytest.raises(ValueError, match="`sensitive_features` was not given"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="handles two groups"):
        model.fit(X, y, sensitive_features=np.arange(200) % 3)
    with pytest.raises(ValueError, match="one protected attribute"):
        model.fit(X, y, sensitive_features=np.column_stack([s, s]))
    with pytest.raises(ValueError, match="Only binary classification"):
        model.fit(X, np.arange(200) % 3, sensitive_features=s)
    with pytest.raises(ValueError, match="one class only"):
        model.fit(X, np.zeros(200, int), sensitive_features=s)
    nobody = np.where((y == "yes") & (s == "b"), "no", y)
    for criterion in CRITERIA[1:]:
        with pytest.raises(ValueError, match=r"group .*b.* has none there"):
            LAFTR(criterion, **SHORT).fit(X, nobody, sensitive_features=s)
    model.fit(X, nobody, sensitive_features=s)


@pytest.mark.parametrize("kind", [LAFTR, LAFTRGP])
def test_prediction_says_that_it_needs_s(kind):
    model = kind(**SHORT).fit(X, y, sensitive_features=s)
    for method in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, method):
            with pytest.raises(
                ValueError, match="use_sensitive=False for a model that does without"
            ):
                getattr(model, method)(X)
    with pytest.raises(ValueError, match="which fit did not see"):
        model.predict(X, np.full(200, "c"))
    with pytest.raises(sklearn.exceptions.NotFittedError):
        kind().predict(X, s)


def test_divergence_is_an_error():
    with pytest.raises(ValueError, match="Training diverged"):
        LAFTR(loss="cross_entropy", learning_rate=1e200, epochs=3).fit(X, y, sensitive_features=s)


# --------------------------------------------------------------------------- LAFTR-GP, sweeps


def test_process_on_the_standardised_representation():
    model = LAFTRGP(**SHORT, max_hyper_rows=100).fit(X, y, sensitive_features=s)
    alone = LAFTR(**SHORT).fit(X, y, sensitive_features=s)
    z = alone.transform(X, s)
    np.testing.assert_array_equal(z, model.encoder_.transform(X, s))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    score = model.decision_function(X, s)
    np.testing.assert_allclose(score, model.gp_.predict(z), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X, s), np.where(score > 0, "yes", "no"))
    assert model.kept_.all()
    assert model.n_features_in_ == 4
    assert np.mean(model.predict(X, s) == y) > 0.85


def test_collapsed_columns_are_left_out():
    encoder = LAFTR(**SHORT).fit(X, y, sensitive_features=s)
    encoder.networks_.encoder.weight2[:, 2] = 0.0
    model = LAFTRGP(**SHORT, max_hyper_rows=100)
    with pytest.warns(DataWarning, match="1 of 8 columns of the representation collapsed"):
        model._fit_process(encoder, X, y, s)
    np.testing.assert_array_equal(model.kept_, np.arange(8) != 2)
    assert np.isfinite(model.decision_function(X, s)).all()
    encoder.networks_.encoder.weight2[:] = 0.0
    with pytest.warns(DataWarning, match="8 of 8 columns"):
        model._fit_process(encoder, X, y, s)
    mean = np.mean(np.where(y == "yes", 1.0, -1.0))
    np.testing.assert_array_equal(model.decision_function(X, s), np.full(200, mean))


def test_duplicated_columns_do_no_harm():
    encoder = LAFTR(**SHORT).fit(X, y, sensitive_features=s)
    encoder.networks_.encoder.weight2[:] = encoder.networks_.encoder.weight2[:, :1]
    model = LAFTRGP(**SHORT, max_hyper_rows=100)._fit_process(encoder, X, y, s)
    assert np.abs(model.decision_function(X, s)).max() < 10.0


@pytest.mark.parametrize("kind", [LAFTR, LAFTRGP])
def test_sweep_gives_what_single_fits_give(kind):
    model = kind(**SHORT, use_sensitive=False)
    sweep = laftr_sweep(
        model, X, y, sensitive_features=s, losses=("l1", "cross_entropy"),
        criteria=("statistical_parity", "equalized_odds"), fair_weights=(0.0, 1.0), random_states=(0, 7),
    )  # fmt: skip
    fitted = list(sweep)
    params = [(m.loss, m.criterion, m.fair_weight, m.random_state) for m in fitted]
    assert len(params) == len(set(params)) == 16
    assert params[:3] == [
        ("l1", "statistical_parity", 0.0, 0),
        ("l1", "statistical_parity", 0.0, 7),
        ("l1", "statistical_parity", 1.0, 0),
    ]
    assert not hasattr(model, "classes_")
    for one in (fitted[3], fitted[14]):
        assert type(one) is kind
        alone = clone(one).fit(X, y, sensitive_features=s)
        np.testing.assert_allclose(
            one.decision_function(X), alone.decision_function(X), rtol=1e-6, atol=1e-8
        )


def test_sweep_of_nothing():
    (only,) = laftr_sweep(LAFTR(**SHORT), X, y, sensitive_features=s)
    assert only.get_params() == LAFTR(**SHORT).get_params()
    with pytest.raises(ValueError, match="empty list"):
        laftr_sweep(LAFTR(), X, y, sensitive_features=s, fair_weights=[])


# --------------------------------------------------------------------------- golden table


def test_golden_files_agree(shared):
    for dataset in golden.DATASETS:
        for use in (False, True):
            seeds = golden.golden(shared, dataset, use)
            assert len(seeds) == 36
            for key, stored in golden.stored_means(shared, dataset, use).items():
                np.testing.assert_allclose(seeds[key].mean(axis=0), stored[0], atol=6e-5)
                np.testing.assert_allclose(seeds[key].std(axis=0, ddof=1), stored[1], atol=6e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dataset", golden.DATASETS)
def test_golden_table(shared, dataset):
    """About five minutes each; `tests.golden.laftr` says what the limits mean."""
    measured = golden.measure(shared, dataset, use_sensitive=True)
    expected = golden.golden(shared, dataset, use_sensitive=True)
    assert measured.keys() == expected.keys()
    assert golden.misses(golden.summary(measured, expected, dataset)) == []


@pytest.mark.filterwarnings("ignore")
def test_the_adversary_of_the_paper_is_trained_with_every_weight():
    from lab.tests.test_experiments import labels_problem

    from fairspan_lab.reproduce._methods import METHODS, Task

    problem = labels_problem()
    points = list(METHODS["laftr-gp"].run(Task(problem, "sp", 0, quick=True)))
    weights = [weight for weight, _ in points]
    assert weights == sorted(set(weights))
    for _, scores in points:
        assert np.atleast_2d(scores).shape == (1, len(problem.test))
        assert np.isfinite(scores).all()
