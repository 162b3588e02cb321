"""What engines call on workers: samples and moments of parts add up to those of all rows."""

import numpy as np
import pytest

from fairspan.streaming.engines import moments_of, sample_of
from fairspan.streaming.rows import PilotSample, Rows, Span
from fairspan.streaming.sample import Sample
from fairspan.streaming.sources import Part

RNG = np.random.default_rng(0)
N = 300
S = RNG.integers(0, 2, N)
X = RNG.normal(size=(N, 3)) + S[:, None]
Y = X[:, 0] + RNG.normal(size=N)


class Piece(Part):
    def __init__(self, first, stop, *, bad=False):
        super().__init__(f"rows from {first}", None)
        self.first, self.stop, self.bad = first, stop, bad

    def read(self):
        rows = slice(self.first, self.stop)
        x = X[rows].copy()
        if self.bad:
            x[7, 1] = np.nan
        yield Rows(x, Y[rows], S[rows], None, None, (Span(self.name, 0, len(x)),))


@pytest.fixture(scope="module")
def prepared():
    adapter = pytest.importorskip("fairspan.estimators.stream_methods")._FitAdapter
    from fairspan import FairRidge

    est = adapter(FairRidge(n_components=20, gamma=0.3, random_state=0))
    sample = PilotSample(
        rows=Rows(X, Y, S, None, None), seed=0, text_features=[], role_columns=None
    )
    return est, est.prepare(sample)


def test_a_base_is_a_position_and_no_number_of_a_row(prepared):
    """Parts that begin at 0 have the sums of parts that know where they begin."""
    est, pilot = prepared
    cuts = [(0, 110), (110, 200), (200, 300)]
    empty = Sample(50, 1)
    known = [moments_of(est, pilot, 64, Piece(a, b), a) for a, b in cuts]
    based = [moments_of(est, pilot, 64, Piece(a, b), 0, a) for a, b in cuts]
    first, second = known[0] + known[1] + known[2], based[0] + based[1] + based[2]
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_allclose(first.scatter, second.scatter, rtol=1e-12, atol=1e-12)
    samples = [sample_of(est, empty, None, False, Piece(a, b), 0, a) for a, b in cuts]
    whole = sample_of(est, empty, None, False, Piece(0, N), 0)
    np.testing.assert_array_equal((samples[2] + samples[0] + samples[1]).rows().X, whole.rows().X)


def test_errors_name_the_row_of_the_part(prepared):
    est, pilot = prepared
    for work in (
        lambda part: moments_of(est, pilot, 64, part, 0, 2**33),
        lambda part: sample_of(est, Sample(50, 1), None, False, part, 0, 2**33),
    ):
        with pytest.raises(ValueError, match=r"rows from 100, row 7: (?!.*of all)"):
            work(Piece(100, 200, bad=True))
