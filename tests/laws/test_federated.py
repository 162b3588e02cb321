"""One round of sites: the merged model is the pooled one, files hold no row, and nonsense is refused."""

import copy
import itertools
import json

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
    MomentsFileError,
    load_model,
    load_pilot,
    save_model,
)
from fairspan._archives import read_archive, write_archive
from fairspan.federated.moments_file import FORMAT, KIND
from tests.laws.test_forgetting import classes, outputs, rows
from tests.support.strategies import gap

TOL = 1e-10
PUBLIC = {"landmarks": np.random.default_rng(7).normal(size=(12, 3)), "gamma": 0.3}
ESTIMATORS = {
    "ridge": lambda: FairRidge(**PUBLIC),
    "linear": lambda: FairRidge(kernel="linear"),
    "sampler": lambda: FairRidge(
        feature_map=RBFSampler(gamma=0.2, n_components=20, random_state=0)
    ),
    "training rows": lambda: FairRidge(removal="training_rows", **PUBLIC),
    "gp": lambda: FairGPRegressor(**PUBLIC),
    "representation": lambda: FairRepresentation(**PUBLIC),
    "classifier": lambda: FairRidgeClassifier(**PUBLIC),
    "odds": lambda: FairRidgeClassifier(criterion="equalized_odds", **PUBLIC),
    "labels": lambda: FairGPClassifier(likelihood="gaussian", **PUBLIC),
}


def made_up(n=400):
    """Rows that everybody may see."""
    X, y, s = rows(n, seed=999)
    return X, y, s


class Sites:
    """Rows of sites, the pilot's file, and the model of all rows."""

    def __init__(self, folder, n_sites=3, n=600, name="ridge"):
        self.folder, self.n_sites = folder, n_sites
        self.X, y, self.s = rows(n)
        X, y_public, s = made_up()
        discrete = name in ("classifier", "odds", "labels")
        self.y = classes(y) if discrete else y
        self.pilot = folder / "pilot.npz"
        est = ESTIMATORS[name]()
        est.prepare(
            X, classes(y_public) if discrete else y_public, sensitive_features=s, folds="hash"
        )
        est.export_pilot(self.pilot, public=True)
        self.cls = type(est)
        rng = np.random.default_rng(5)
        self.site = rng.integers(0, n_sites, n)
        self.pooled = load_pilot(self.pilot).partial_fit(self.X, self.y, sensitive_features=self.s)

    def names(self):
        return [f"site {k:03d}" for k in range(self.n_sites)]

    def send(self, k, **options):
        at = self.site == k
        est = load_pilot(self.pilot)
        est.partial_fit(self.X[at], self.y[at], sensitive_features=self.s[at], solve=False)
        path = self.folder / f"{k}.npz"
        est.export_moments(path, site=self.names()[k], **{"min_rows": 1, **options})
        return path

    def merge(self, files=None, **options):
        files = [self.send(k, **options) for k in range(self.n_sites)] if files is None else files
        return self.cls.from_moments(files, pilot=self.pilot)


def assert_same(a, b, X, tol=TOL):
    assert gap(outputs(a, X), outputs(b, X)) <= tol
    for mine, theirs in zip(a.certificate_.blocks, b.certificate_.blocks, strict=True):
        assert mine.n_rows == theirs.n_rows
        assert mine.score == pytest.approx(theirs.score, abs=1e-9)
    assert a.certificate_.new_rows.high == pytest.approx(b.certificate_.new_rows.high, abs=1e-9)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("fixed_point", [False, True])
def test_the_merged_model_is_the_pooled_one(tmp_path, name, fixed_point):
    sites = Sites(tmp_path, name=name)
    assert_same(sites.merge(fixed_point=fixed_point), sites.pooled, sites.X[:60])


def test_a_trend_is_in_the_pilot(tmp_path, monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "trend", lambda: FairGPRegressor(mean="linear", **PUBLIC))
    sites = Sites(tmp_path, name="trend")
    # The flat prior of the slopes makes the covariance 100 times worse conditioned.
    assert_same(sites.merge(), sites.pooled, sites.X[:60], tol=1e2 * TOL)


@pytest.mark.parametrize("n_sites", [1, 10, 60])
def test_the_number_of_sites_does_not_matter(tmp_path, n_sites):
    sites = Sites(tmp_path, n_sites=n_sites)
    assert_same(sites.merge(), sites.pooled, sites.X[:60])


def test_the_order_of_files_changes_no_bit(tmp_path):
    sites = Sites(tmp_path, n_sites=3)
    for fixed_point in (False, True):
        files = [sites.send(k, fixed_point=fixed_point) for k in range(3)]
        first = sites.merge(files).predict(sites.X)
        for other in itertools.permutations(files):
            np.testing.assert_array_equal(sites.merge(other).predict(sites.X), first)


def shared_keys(names):
    """Secret of each pair of sites."""
    return {
        one: {o: f"secret of {min(one, o)} and {max(one, o)}".encode() for o in names if o != one}
        for one in names
    }


def test_masked_sums_give_the_same_bits_and_only_together(tmp_path):
    sites = Sites(tmp_path, n_sites=4)
    plain = sites.merge(fixed_point=True)
    keys = shared_keys(sites.names())
    files = [sites.send(k, mask_keys=keys[sites.names()[k]]) for k in range(4)]
    merged = sites.merge(files)
    np.testing.assert_array_equal(merged.predict(sites.X), plain.predict(sites.X))
    assert not hasattr(merged, "site_dependence_")  # nobody knows a site by itself
    with pytest.raises(MomentsFileError, match="'site 003' is missing"):
        sites.merge(files[:3])
    bare = sites.send(3, fixed_point=True)
    with pytest.raises(MomentsFileError, match="'site 003' is missing"):
        sites.merge([*files[:3], bare])
    # A wrong key leaves masks in the sum.
    wrong = {**keys["site 003"], "site 000": b"another secret, as long as it must be"}
    with pytest.raises(MomentsFileError, match="sum of all sites is refused"):
        sites.merge([*files[:3], sites.send(3, mask_keys=wrong)])


def test_dependence_at_each_site_is_that_of_its_rows(tmp_path):
    sites = Sites(tmp_path, n_sites=3)
    model = sites.merge()
    score = model.predict(sites.X)
    for fairness in (1.0, 0.0):
        at = model.at(fairness)
        score = at.predict(sites.X)
        for k, found in enumerate(at.site_dependence_):
            rows_of = sites.site == k
            f, s = score[rows_of], sites.s[rows_of]
            means = {g: (f[s == g].mean() - f.mean()) / f.std() for g in ("a", "b")}
            expected = np.sqrt(sum((s == g).mean() * means[g] ** 2 for g in means))
            assert found.site == sites.names()[k]
            assert found.n_rows == rows_of.sum()
            assert found.correlation == pytest.approx(expected, abs=1e-9)
            assert found.means == pytest.approx(means, abs=1e-9)
            assert found.by_chance == pytest.approx(1 / np.sqrt(rows_of.sum()))
    assert len(model.site_dependence_) == 3
    more = model.partial_fit(sites.X, sites.y, sensitive_features=sites.s)
    assert not hasattr(more, "site_dependence_")  # it is another model


def test_a_merged_model_is_saved_with_its_sites(tmp_path):
    pytest.importorskip("skops")
    sites = Sites(tmp_path)
    model = sites.merge()
    for keep_moments in (True, False):
        path = save_model(model, tmp_path / "model.skops", keep_moments=keep_moments)
        loaded = load_model(path)
        assert gap(loaded.predict(sites.X), model.predict(sites.X)) <= TOL
        for a, b in zip(loaded.site_dependence_, model.site_dependence_, strict=True):
            assert a.means == pytest.approx(b.means, abs=1e-9)


def test_no_file_holds_a_row(tmp_path):
    """Every array of both files is compared with every row, its columns and its coordinates."""
    sites = Sites(tmp_path)
    path = sites.send(0)
    X = sites.X[sites.site == 0]
    y = sites.y[sites.site == 0]
    features = sites.pooled.pilot_.features
    hidden = {
        "X": X,
        "kernel columns": features.columns(X),
        "coordinates": features.coordinates(X),
        "y": y[:, None],
    }
    _, arrays = read_archive(path, KIND, FORMAT)
    _, pilot = read_archive(sites.pilot, "fairspan pilot file", 1)
    assert set(pilot) == {"landmarks", "whitening"}
    for name, array in {**arrays, **pilot}.items():
        assert not any(word in name for word in ("sketch", "hash", "first_row"))
        flat = np.asarray(array, dtype=np.float64).reshape(-1)
        for what, values in hidden.items():
            found = np.isin(values, flat).all(axis=1)
            assert not found.any(), f"{name} holds {what}"
    np.testing.assert_array_equal(pilot["landmarks"], np.unique(PUBLIC["landmarks"], axis=0))


def test_small_groups_are_not_sent(tmp_path):
    sites = Sites(tmp_path)
    with pytest.raises(ValueError, match=r"Only \d+ rows of a cell and fold have .*min_rows=40"):
        sites.send(0, min_rows=40)
    assert sites.send(0, min_rows=2).exists()


# --------------------------------------------------------------------------- pilots


def test_a_pilot_of_rows_is_not_exported(tmp_path):
    X, y, s = made_up()
    path = tmp_path / "pilot.npz"
    for target, public, what in (
        (y, {"n_components": 20, "gamma": 0.3}, "landmarks and edges of slices"),
        (y, PUBLIC, "edges of slices"),
    ):
        est = FairRidge(**public).prepare(X, target, sensitive_features=s, folds="hash")
        with pytest.raises(ValueError, match=what):
            est.export_pilot(path)
        assert not path.exists()
        assert est.export_pilot(path, public=True) == path
        path.unlink()
    est = FairRidgeClassifier(**PUBLIC).prepare(X, classes(y), sensitive_features=s, folds="hash")
    assert est.export_pilot(path) == path  # categories are no values of single rows


@pytest.mark.parametrize(
    ("make", "prepare", "match"),
    [
        (lambda: FairRidge(**PUBLIC), {"folds": "strata"}, "folds='hash'"),
        (lambda: FairGPClassifier(**PUBLIC), {"folds": "hash"}, "likelihood='logistic'"),
        (
            lambda: FairRidgeClassifier(equalize="decisions", **PUBLIC),
            {"folds": "hash"},
            "equalize='decisions'",
        ),
        (
            lambda: FairRidge(method="paper", removal="training_rows", **PUBLIC),
            {"folds": "hash"},
            "first row",
        ),
    ],
)
def test_what_no_moments_determine_is_refused(tmp_path, make, prepare, match):
    X, y, s = made_up()
    est = make()
    est.prepare(X, y if isinstance(est, FairRidge) else classes(y), sensitive_features=s, **prepare)
    with pytest.raises(ValueError, match=match):
        est.export_pilot(tmp_path / "pilot.npz", public=True)


def test_learners_have_no_moments(tmp_path):
    with pytest.raises(AttributeError, match="all rows at once"):
        FairClassifier().export_pilot(tmp_path / "pilot.npz")


def test_an_estimator_goes_on_from_its_own_pilot(tmp_path):
    """The one that wrote the pilot and those that read it send moments of one pilot."""
    X, y, s = made_up()
    est = FairRidge(**PUBLIC).prepare(X, y, sensitive_features=s, folds="hash")
    pilot = est.export_pilot(tmp_path / "pilot.npz", public=True)
    A, b, c = rows(300)
    est.partial_fit(A[:150], b[:150], sensitive_features=c[:150], solve=False)
    other = load_pilot(pilot)
    other.partial_fit(A[150:], b[150:], sensitive_features=c[150:], solve=False)
    files = [
        est.export_moments(tmp_path / "1.npz", site="one"),
        other.export_moments(tmp_path / "2.npz", site="two"),
    ]
    merged = FairRidge.from_moments(files, pilot=pilot)
    pooled = load_pilot(pilot).partial_fit(A, b, sensitive_features=c)
    assert_same(merged, pooled, A)
    with pytest.raises(MomentsFileError, match="is for FairRidge"):
        FairGPRegressor.from_moments(files, pilot=pilot)


def test_names_classes_and_files_survive(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y, s = made_up()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for target in (classes(y), (y > 0).astype(int), y > 0, classes(y).astype(object)):
        est = FairRidgeClassifier(**PUBLIC)
        est.prepare(frame, target, sensitive_features=pd.Series(s, name="sex"), folds="hash")
        again = load_pilot(est.export_pilot(tmp_path / "pilot.npz", public=True))
        assert again.classes_.tolist() == est.classes_.tolist()
        assert again.classes_.dtype == est.classes_.dtype
        assert again.feature_names_in_.tolist() == ["a", "b", "c"]
        assert [coder.name for coder in again.pilot_.coders] == ["sex"]


# --------------------------------------------------------------------------- nonsense


def resigned(path, change):
    """The file with other contents and the digest that goes with them: a site that lies."""
    header, arrays = read_archive(path, KIND, FORMAT)
    header, arrays = dict(header), {name: array.copy() for name, array in arrays.items()}
    change(header, arrays)
    write_archive(path, KIND, FORMAT, header, arrays)
    return path


def set_header(**values):
    return lambda header, _: header.update(values)


def scaled(name, factor):
    def change(header, arrays):
        arrays[name] = (arrays[name] * factor).astype(arrays[name].dtype)

    return change


def put(name, value):
    def change(header, arrays):
        arrays[name].flat[0] = value

    return change


LIES = {
    "another pilot": (set_header(pilot="0" * 64), "another pilot"),
    "no site": (set_header(site=""), "no name of a site"),
    "a number as site": (set_header(site=3), "no name of a site"),
    "another encoding": (set_header(encoding="pickle"), "header is not complete"),
    "partners that are no names": (set_header(partners=[1]), "header is not complete"),
    "masks on plain numbers": (set_header(partners=["x", "y"]), "masks are of other sites"),
    "another number of rows": (set_header(rows=7), "number of rows"),
    "not a number": (put("mean", np.nan), "not finite"),
    "infinity": (put("scatter", np.inf), "not finite"),
    "a negative weight": (put("weight", -5.0), "below zero"),
    "a negative count": (put("level_rows", -5), "below zero"),
    "twice the weight": (scaled("weight", 2.0), "no rows have|more weight|another weight"),
    "more rows than weights allow": (scaled("level_weight", 3.0), "no rows have|more weight"),
    "half of the scatter": (scaled("scatter", 0.01), "square allows|semidefinite"),
    "a negative scatter": (scaled("scatter", -1.0), "square allows|semidefinite"),
    "other means of levels": (scaled("level_mean", 1.5), "average|semidefinite"),
    "means above one": (scaled("mean", 9.0), "average|outside"),
    "products that are too large": (scaled("column_cross", 1e3), "square allows"),
    "a missing array": (lambda _, a: a.pop("weight"), "should have the arrays"),
    "a further array": (lambda _, a: a.update(rows_of_mine=np.zeros(3)), "should have the arrays"),
    "another shape": (lambda _, a: a.update(weight=a["weight"][:-1]), "another shape or type"),
    "another type": (lambda _, a: a.update(weight=a["weight"].astype("f4")), "another shape"),
    "no rows": (lambda _, a: [v.fill(0) for v in a.values()], "no rows|number of rows"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_site_that_lies_is_refused_by_name(tmp_path, name):
    sites = Sites(tmp_path)
    files = [sites.send(k) for k in range(3)]
    change, match = LIES[name]
    resigned(files[1], change)
    with pytest.raises(MomentsFileError, match=match) as error:
        sites.merge(files)
    assert str(files[1]) in str(error.value)


@pytest.mark.parametrize("word", ["x", "xx", "weight", "level_x", "rows"])
def test_a_site_that_lies_in_integers_is_refused(tmp_path, word):
    sites = Sites(tmp_path)
    files = [sites.send(k, fixed_point=True) for k in range(3)]

    def change(header, arrays):
        words = arrays[word]
        (words if words.ndim == 1 else words[1]).flat[0] += np.uint64(2**61)

    resigned(files[1], change)
    with pytest.raises(MomentsFileError) as error:
        sites.merge(files)
    assert str(files[1]) in str(error.value)


def test_a_site_twice_and_none_at_all(tmp_path):
    sites = Sites(tmp_path)
    path = sites.send(0)
    with pytest.raises(MomentsFileError, match="'site 000' is given twice"):
        sites.merge([path, path])
    with pytest.raises(MomentsFileError, match="No moments file"):
        sites.merge([])
    with pytest.raises(MomentsFileError, match="cannot be read"):
        sites.merge([tmp_path / "absent.npz"])


def test_a_tampered_file_and_a_bomb_are_refused(tmp_path):
    import zipfile

    sites = Sites(tmp_path)
    path = sites.send(0)
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"site 000"', b'"site 999"'))
    with pytest.raises(MomentsFileError, match=r"damaged|digest"):
        sites.merge([path])
    path.write_bytes(good + b"\0" * 2_000_000)
    with pytest.raises(MomentsFileError, match="at most"):
        sites.merge([path])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weight.npy", b"\0" * 10_000_000)
    with pytest.raises(MomentsFileError, match="compressed"):
        sites.merge([path])
    np.savez(path, weight=np.array([{}], dtype=object), **{"header.json": np.zeros(2, np.uint8)})
    with pytest.raises(MomentsFileError, match="Python objects"):
        sites.merge([path])


def test_a_pilot_that_lies_is_refused(tmp_path):
    sites = Sites(tmp_path)
    header, arrays = read_archive(sites.pilot, "fairspan pilot file", 1)

    def refused(match, change):
        h, a = json.loads(json.dumps(header)), copy.deepcopy(arrays)
        change(h, a)
        write_archive(sites.pilot, "fairspan pilot file", 1, h, a)
        with pytest.raises(MomentsFileError, match=match):
            load_pilot(sites.pilot)

    refused("fingerprint", lambda _, a: a["landmarks"].__setitem__((0, 0), 0.5))
    refused("estimator|does not know", lambda h, _: h.update(estimator="FairClassifier"))
    refused("kernel", lambda h, _: h["pilot"]["features"].update(kernel="os.system"))
    refused("kernel", lambda h, _: h["pilot"]["features"].update(kernel="precomputed"))
    refused("damaged|refused", lambda h, _: h["parameters"].update(callback="print"))
    refused("fairness", lambda h, _: h["parameters"].update(fairness=3))
    refused("whitening|fingerprint", lambda _, a: a["whitening"].__imul__(1e9))
    refused("rule of folds", lambda h, _: h["pilot"].update(n_folds=10**9))
    refused("attribute", lambda h, _: h["pilot"]["coders"][0].update(table=["b", "a"]))
    refused("classes", lambda h, _: h.update(classes=["x"], class_kind="U"))
    refused("names", lambda h, _: h.update(features=["x"]))
    sites.pilot.write_bytes(b"PK not an archive")
    with pytest.raises(MomentsFileError, match="damaged"):
        load_pilot(sites.pilot)
