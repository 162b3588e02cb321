"""The sketch of fitted rows: what it keeps, how it merges, and how surely it recognises rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method import row_sketch as _row_sketch
from fairspan.method.row_sketch import BITS, SIZE, RowSketch

SEEDS = st.integers(0, 2**32 - 1)


def people(n, seed, kind="numbers"):
    """Rows without copies, with some copies, or with few different values."""
    rng = np.random.default_rng(seed)
    if kind == "numbers":
        return rng.normal(size=(n, 3))
    if kind == "some copies":  # about one in ten shares its row with another one
        return rng.integers(0, round(n**0.5 * 5), size=(n, 2)).astype(float)
    if kind == "skewed":  # a few frequent rows and many rare ones
        return np.floor(rng.pareto(0.7, size=(n, 2)))
    return rng.integers(0, 3, size=(n, 4)).astype(float)


def sketch(X, key="key"):
    return RowSketch.empty(key).add(X)


# ------------------------------------------------------------------ what is kept


@given(SEEDS, st.integers(1, 400), st.lists(st.integers(0, 400), max_size=4))
def test_any_partition_gives_the_same_sketch(seed, n, cuts):
    X = people(n, seed, "some copies")
    parts = np.split(np.random.default_rng(seed).permutation(X), sorted(cuts))
    out = RowSketch.empty("key")
    for part in parts:
        out = sketch(part) + out
    assert out == sketch(X)
    assert out.counts.sum() == n


@pytest.mark.parametrize("n", [5_000, 60_000])
def test_more_rows_than_fit_are_sampled_by_their_hash(n, monkeypatch):
    X = people(n, 0)
    whole = sketch(X)
    assert SIZE // 3 < len(whole.hashes) <= SIZE
    assert whole.level == np.ceil(np.log2(n / SIZE))
    halves = sketch(X[: n // 2]) + sketch(X[n // 2 :])
    assert halves == whole
    monkeypatch.setattr(_row_sketch, "_BLOCK_VALUES", 1000)
    assert sketch(X) == whole


def test_a_file_keeps_sixteen_bits_of_each_hash():
    short = sketch(people(20_000, 0)).shortened()
    assert short.known == short.level + BITS
    used = np.bitwise_or.reduce(short.hashes)
    assert bin(used).count("1") == BITS
    assert short.shortened() == short


def test_a_sketch_from_a_file_goes_on():
    first, then = people(6_000, 0), people(30_000, 1)
    out = sketch(first).shortened().add(then)
    assert len(out.hashes) <= SIZE
    assert out.level >= 3
    for rows in (first, then):
        assert out.share_of(rows) == pytest.approx(1.0, abs=0.02)
    assert out.share_of(people(5_000, 2)) is None


def test_bits_may_run_out():
    short = sketch(people(4_000, 0)).shortened()
    for seed in range(1, 9):
        short = short.add(people(4_000 * 2**seed, seed)).shortened()
    assert len(short.hashes) == SIZE == 2 ** (short.known - short.level)  # every prefix is taken
    assert short.share_of(people(500, 99)) is None


def test_another_key_gives_other_hashes():
    X = people(500, 0)
    assert not np.isin(sketch(X, "a").hashes, sketch(X, "b").hashes).any()


def test_rows_are_recognised_after_rounding():
    X = people(300, 0)
    found = sketch(X)
    assert sketch(X.astype(np.float32)) == found
    assert sketch(X * (1.0 + 1e-13)).share_of(X) > 0.95  # another order of sums
    assert sketch(np.asfortranarray(X)) == found
    zero = np.zeros((1, 3))
    assert sketch(zero) == sketch(-zero)
    assert sketch(np.array([[1e300]])) == sketch(np.array([[2e300]]))


def test_tensors_have_the_hashes_of_arrays():
    torch = pytest.importorskip("torch")
    X = people(3_000, 0)
    for dtype in (torch.float64, torch.float32):
        assert sketch(torch.tensor(X, dtype=dtype)) == sketch(X)
    assert sketch(X).share_of(torch.tensor(X)) == 1.0


def test_hashes_are_uniform_and_independent_over_keys():
    X, n = people(2, 0), 4_000
    pairs = np.array([_row_sketch._hash_rows(X, str(key), 0) for key in range(n)])
    top = pairs >> 29  # eight cells for each of the two rows
    counts = np.bincount(top[:, 0] * 8 + top[:, 1], minlength=64)
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 110.0  # chi2(63): 1 in 4,000 draws


GOOD = {"level": 0, "known": 32, "hashes": np.arange(3, dtype=np.uint32), "counts": np.ones(3, int)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": 33},
        {"level": True},
        {"known": -1},
        {"level": 5, "known": 4},
        {"hashes": np.arange(3)},
        {"hashes": np.arange(4, dtype=np.uint32)},
        {"counts": "many"},
        {"counts": np.zeros(3, dtype=np.int64)},
        {"hashes": np.zeros((3, 1), dtype=np.uint32)},
        {"hashes": np.zeros(9000, np.uint32), "counts": np.ones(9000, int)},
    ],
)
def test_parts_that_form_no_sketch_are_refused(wrong):
    assert RowSketch.checked("key", **GOOD).known == 32
    with pytest.raises(ValueError, match="its sketch of rows"):
        RowSketch.checked("key", **{**GOOD, **wrong})


# ------------------------------------------------------------------ what it says

SIZES = [60, 1_000, 20_000]
KINDS = ["numbers", "some copies", "skewed", "few values"]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("short", [False, True], ids=["in memory", "from a file"])
def test_the_share_of_fitted_rows_is_estimated(n, short):
    X = people(n, 0)
    found = sketch(X).shortened() if short else sketch(X)
    assert found.share_of(X) == pytest.approx(1.0, abs=0.01)
    half = np.concatenate([X[: n // 2], people(n // 2, 1)])
    assert found.share_of(half) == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_are_passed_over_in_silence(kind, n):
    found = sketch(people(n, 0, kind))
    assert found.share_of(people(n, 1, kind)) is None
    assert found.share_of(people(20, 2, kind)) is None


def test_copies_are_no_fitted_rows():
    X, new = people(2_000, 0, "some copies"), people(2_000, 1, "some copies")
    found = sketch(X)
    copied = np.isin(new @ [1.0, 1e4], X @ [1.0, 1e4]).mean()
    assert 0.03 < copied < 0.2
    assert found.counts[found.counts > 1].sum() / 2_000 == pytest.approx(copied, abs=0.03)
    assert found.share_of(X) == pytest.approx(1.0, abs=0.01)
    assert found.share_of(np.concatenate([X, new])) == pytest.approx(0.5, abs=0.04)


def test_copies_among_the_audited_rows_are_one_piece_of_evidence():
    found = sketch(people(4_000, 0))
    rates = [found.share_of(np.repeat(people(100, seed), 20, axis=0)) for seed in range(1, 60)]
    assert rates == [None] * len(rates)


def test_few_rows_of_many_are_recognised():
    X = people(1_000, 0)
    assert sketch(X).share_of(X[:5]) == 1.0
    mixed = np.concatenate([X[:50], people(950, 1)])
    assert sketch(X).share_of(mixed) == pytest.approx(0.05, abs=0.02)
    assert sketch(X).share_of(people(0, 1)) is None
    assert RowSketch.empty("key").share_of(X) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [100, 1_000, 10_000])
def test_false_alarms_are_rare(kind, n):
    """At most three in a thousand, where one in a thousand is nominal: 600 draws of each."""
    draws, alarms = 600, 0
    for seed in range(draws):
        found = sketch(people(n, 2 * seed, kind), key=str(seed)).shortened()
        alarms += found.share_of(people(n, 2 * seed + 1, kind)) is not None
    assert alarms <= 4  # Poisson with mean 1.8: more in 4 of 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("numbers", 0.1),
        ("numbers", 0.5),
        ("numbers", 1.0),
        ("some copies", 0.5),
        ("some copies", 1.0),
    ],
)
def test_shares_are_unbiased(kind, share):
    n, shares = 2_000, []
    for seed in range(200):
        X, new = people(n, 2 * seed, kind), people(n, 2 * seed + 1, kind)
        m = round(share * n)
        shares.append(sketch(X, str(seed)).share_of(np.concatenate([X[:m], new[m:]])))
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - share) < 4.0 * error + 0.01


@pytest.mark.parametrize("short", [False, True])
def test_rows_are_looked_up_one_by_one(short):
    X, new = people(1_000, 0), people(1_000, 1)
    fitted = RowSketch.empty("key").add(X)
    fitted = fitted.shortened() if short else fitted
    known, match = fitted.look_up(np.concatenate([X, new]))
    assert known.all()
    assert match[:1_000].all()
    # New rows match by chance alone, as often as the sketch says.
    assert fitted.chance == pytest.approx(1_000 / 2.0 ** (16 if short else 32), rel=0.05)
    assert match[1_000:].sum() <= (40 if short else 0)
    assert match[1_000:].sum() >= (3 if short else 0)


def test_of_many_rows_a_sample_can_be_looked_up():
    X, new = people(20_000, 0), people(5_000, 1)
    fitted = RowSketch.empty("key").add(X)
    known, match = fitted.look_up(X)
    assert 0.05 < known.mean() < 0.3
    assert np.array_equal(known, match)
    known, match = fitted.look_up(new)
    assert 0.05 < known.mean() < 0.3
    assert not match.any()
