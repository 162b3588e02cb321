"""The same rows and seed are the same model: twice, in threads, in processes, on any number of cores."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sklearn
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    FairspanWarning,
    fairness_path,
)
from fairspan.metrics import fairness_scorer

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "representation": (FairRepresentation, {}),
    "landmarks": (FairRidge, {"n_components": 60}),
    "pivots": (FairRidge, {"n_components": 60, "landmarks": "rpcholesky"}),
    "ridge": (FairRidge, {}),
    "fair ridge": (FairRidge, {"subspace": "fair"}),
    "ridge classifier": (FairRidgeClassifier, {"criterion": "eo"}),
    "gp": (FairGPRegressor, {}),
    "gp classifier": (FairGPClassifier, {}),
}


def rows(n=300, seed=3):
    rng = np.random.default_rng(seed)
    s = np.array(["north", "south", "east"])[rng.integers(0, 3, n)]
    X = rng.normal(size=(n, 4)) + (s == "north")[:, None] * [1.0, 0.5, 0.0, 0.0]
    y = np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    return X, y, {"region": s, "age": X[:, 2] + rng.normal(size=n)}


def outcome(name, n=300):
    """Everything a fit says, in the order of the rows."""
    kind, params = MODELS[name]
    X, y, s = rows(n)
    if kind in (FairRidgeClassifier, FairGPClassifier):
        y = np.array(["no", "yes"])[(y > 0).astype(int)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        est = kind(random_state=0, **params).fit(X, y, sensitive_features=s)
        half = est.at(0.5)
    scores = [
        one.transform(X) @ one.score_coef_ if kind is FairRepresentation else said(one, X)
        for one in (est, half)
    ]
    blocks = [[b.supremum, b.score] for b in half.certificate_.blocks]
    return np.concatenate([np.ravel(part) for part in (*scores, blocks, [est.alpha_, est.gamma_])])


def said(est, X):
    return est.decision_function(X) if hasattr(est, "decision_function") else est.predict(X)


def digest(name):
    return hashlib.sha256(outcome(name).tobytes()).hexdigest()


def path_outcome():
    X, y, s = rows(150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        path = fairness_path(
            FairRidge(random_state=0), X, y, cv=3, sensitive_features={"region": s["region"]}
        )
    return np.asarray(path.curve())


def digests():
    """By model, as text: what another process prints."""
    path = hashlib.sha256(path_outcome().tobytes()).hexdigest()
    return json.dumps({**{name: digest(name) for name in MODELS}, "path": path})


def in_a_process(hash_seed):
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    env["OPENBLAS_NUM_THREADS"] = env["MKL_NUM_THREADS"] = "1"
    code = "from tests.robust_numerics.test_parallel import digests; print(digests())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


# ------------------------------------------------------------------ twice


def test_two_processes_and_two_hash_seeds_give_the_same_bits():
    first, second = in_a_process("0"), in_a_process("4242")
    assert first == second
    assert len(set(first.values())) == len(MODELS) + 1  # the digests tell models apart


def blas_threads():
    return max(
        (one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"), default=0
    )


@pytest.mark.parametrize("name", ["landmarks", "ridge", "ridge classifier", "gp classifier"])
def test_the_number_of_blas_threads_moves_nothing_by_more_than_rounding(name):
    found = []
    for count in (1, 2):
        with threadpool_limits(limits=count, user_api="blas"):
            if blas_threads() != count:
                pytest.skip("this BLAS does not change its number of threads")
            found.append(outcome(name, n=250))
    one, two = found
    assert np.abs(one - two).max() <= 1e-10 * np.abs(one).max()


# ------------------------------------------------------------------ at once


def test_threads_and_processes_give_the_models_of_one_after_the_other():
    jobs = [*MODELS, *MODELS]
    with threadpool_limits(limits=1):
        alone = [outcome(name) for name in jobs]
        with ThreadPoolExecutor(4) as pool:
            threads = list(pool.map(outcome, jobs))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        2, mp_context=spawn, initializer=threadpool_limits, initargs=(1,)
    ) as pool:
        processes = list(pool.map(outcome, MODELS))
    for a, b in zip(alone, threads, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(alone, processes, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_one_fitted_model_serves_many_threads():
    X, y, s = rows()
    est = FairGPClassifier(random_state=0).fit(X, y > 0, sensitive_features=s["region"])
    expected = est.predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: est.predict_proba(X), range(16)):
            np.testing.assert_array_equal(found, expected)
        dials = np.linspace(0.0, 1.0, 8)
        alone = [est.at(d).predict_proba(X) for d in dials]
        for a, b in zip(alone, pool.map(lambda d: est.at(d).predict_proba(X), dials), strict=True):
            np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------ n_jobs


def pipeline():
    fair = FairRepresentation(gamma=0.2, eta=1e-2, alpha=1.0, random_state=0)
    return Pipeline([("scale", StandardScaler()), ("fair", fair), ("model", LogisticRegression())])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_a_grid_search_on_two_processes_is_the_one_on_one(routing):
    X, y, s = rows(200)
    found = []
    for n_jobs in (1, 2):
        search = GridSearchCV(
            pipeline(),
            {"fair__fairness": [0.0, 0.5, 1.0]},
            scoring=fairness_scorer("statistical_parity_correlation"),
            cv=3,
            n_jobs=n_jobs,
            error_score="raise",
        ).fit(X, y > 0, sensitive_features=s["region"])
        found.append(search)
    one, two = found
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], rtol=1e-10
    )
    assert one.best_params_ == two.best_params_
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-10)


def test_cross_validation_on_two_processes_is_that_on_one(routing):
    X, y, s = rows(200)
    scorer = fairness_scorer("statistical_parity_correlation")
    one, two = (
        cross_validate(
            FairGPClassifier(gamma=0.2, alpha=1.0, eta=1e-2, random_state=0),
            X,
            y > 0,
            params={"sensitive_features": s["region"]},
            scoring={"parity": scorer, "accuracy": "accuracy"},
            cv=3,
            n_jobs=n_jobs,
            error_score="raise",
        )
        for n_jobs in (1, 2)
    )
    for name in ("test_parity", "test_accuracy"):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-10)


def threads_in_a_fit():
    """Threads of every pool a worker has once it has fitted."""
    outcome("ridge")
    return os.getpid(), [one["num_threads"] for one in threadpool_info()]


def test_workers_share_the_cores_and_do_not_take_all_of_them_each():
    """loky gives each worker its part of the cores; nothing of ours takes more, or starts a pool."""
    found = Parallel(n_jobs=2, backend="loky")(delayed(threads_in_a_fit)() for _ in range(4))
    most = {}
    for pid, threads in found:
        most[pid] = max([most.get(pid, 1), *threads])
    assert os.getpid() not in most
    cores = max(os.cpu_count() or 1, 2)
    assert sum(most.values()) <= cores


def test_a_fit_leaves_the_pools_of_the_process_as_they_were():
    before = [(one["filepath"], one["num_threads"]) for one in threadpool_info()]
    for name in MODELS:
        outcome(name, n=150)
    assert [(one["filepath"], one["num_threads"]) for one in threadpool_info()] == before
