"""Growth of time and memory of a fit, with other methods for comparison: CPU time, one BLAS thread.

    python -m benchmarks.scale growth            (about 20 CPU minutes; goes on where it stopped)
    python -m benchmarks.scale growth --quick    (small sizes, once; prints and writes nothing)
    python -m benchmarks.scale page              (figure and docs/scaling-tables.md from the results)

Every measurement of ``growth`` is a fresh process: data and imports first, one tiny fit to warm up,
then CPU seconds of the fit and how far it lifts the peak of the process above what was there. The
environment is ``.venv-bench``, which has the other methods.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tools.table import ROOT

from benchmarks.core import ALPHA, GAMMA, PATH, P, cpu, make_data
from benchmarks.scale_speed import fixed_model, some_rows
from fairspan import FairRidge

RESULTS = ROOT / "benchmarks" / "results" / "scale-growth.csv"
FIGURE = ROOT / "docs" / "figures" / "scale-growth.png"
PAGE = ROOT / "docs" / "scaling-tables.md"

# Sizes above these limits are left out.
MOST_SECONDS, MOST_MIB = 90, 6 * 1024
# Runs shorter than this many seconds are repeated; longer ones are measured once.
REPEATS, REPEAT_BELOW = 3, 10.0
N_SLICES = 20
ADAM_STEPS = 20
# Curves that end before this size have their name above, the others at the right.
_STEEP_BELOW = 50_000
# Smaller values are within the resolution of the measurement.
_LEAST = {"cpu_seconds": 0.01, "peak_mib": 5.0}


# --------------------------------------------------------------------------------------------
# Methods and sizes
# --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Case:
    """One measurement: a method at a size."""

    method: str
    n: int
    D: int = 1000
    attributes: int = 1
    cells: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        """Key of a row of the table."""
        return tuple(str(v) for v in (self.method, self.n, self.D, self.attributes, self.cells))


@dataclass(frozen=True)
class Problem:
    """Data of a case, created before the timing starts."""

    case: Case
    X: np.ndarray
    y: np.ndarray
    s: np.ndarray  # the first protected attribute, binary
    S: dict[str, np.ndarray]
    strata: np.ndarray
    label: np.ndarray  # y cut at its median, 0 or 1

    @classmethod
    def make(cls, case: Case) -> Problem:
        """Smooth regression; each further attribute is a noisy function of another feature."""
        X, y, s = make_data(case.n)
        rng = np.random.default_rng(1)
        more = {
            f"s{j}": (X[:, j] + rng.normal(size=case.n) > 0.0).astype(int)
            for j in range(1, case.attributes)
        }
        strata = rng.integers(0, case.cells, case.n)
        return cls(case, X, y, s, {"s0": s, **more}, strata, (y > np.median(y)).astype(int))


def ours(problem: Problem, model: FairRidge) -> None:
    """A fit and its path of 100 dial values."""
    given: dict[str, Any] = {"sensitive_features": problem.S}
    if problem.case.cells > 1:
        model.set_params(criterion="conditional_statistical_parity")
        given["control_features"] = problem.strata
    model.fit(problem.X, problem.y, **given)
    for fairness in PATH:
        model.at(fairness)


def ours_fixed(problem: Problem) -> None:
    """Fixed hyper-parameters."""
    ours(problem, fixed_model(some_rows(problem.X, problem.case.D)))


def ours_automatic(problem: Problem) -> None:
    """Default bandwidth, ridge penalties, landmarks and directions."""
    ours(
        problem,
        FairRidge(
            n_components=min(problem.case.D, problem.case.n),
            random_state=0,
            removal="training_rows",
        ),
    )


def nystroem_ridge(problem: Problem) -> None:
    """The usual pipeline."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge

    psi = Nystroem(gamma=GAMMA, n_components=problem.case.D, random_state=0)
    Ridge(alpha=ALPHA).fit(psi.fit_transform(problem.X), problem.y)


def kernel_ridge(problem: Problem) -> None:
    """Exact kernel ridge regression."""
    from sklearn.kernel_ridge import KernelRidge

    KernelRidge(kernel="rbf", gamma=GAMMA, alpha=ALPHA).fit(problem.X, problem.y)


def sklearn_gp(problem: Problem) -> None:
    """Exact Gaussian process, kernel fixed."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    kernel = RBF((2.0 * GAMMA) ** -0.5)
    GaussianProcessRegressor(kernel, alpha=ALPHA, optimizer=None).fit(problem.X, problem.y)


def gpytorch_gp(problem: Problem) -> None:
    """Exact Gaussian process by conjugate gradients, a few Adam steps on its evidence."""
    import gpytorch
    import torch

    torch.set_num_threads(1)
    X, y = torch.tensor(problem.X), torch.tensor(problem.y)

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.cov = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.cov(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(likelihood).double()
    model.cov.base_kernel.lengthscale = (2.0 * GAMMA) ** -0.5
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(ADAM_STEPS):
        optimizer.zero_grad()
        loss = -evidence(model(X), y)
        loss.backward()
        optimizer.step()


def reduction(problem: Problem, columns: np.ndarray) -> None:
    """Exponentiated gradient of fairlearn over logistic regressions, at one bound."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from sklearn.linear_model import LogisticRegression

    learner = LogisticRegression(max_iter=1000)
    moment = DemographicParity(difference_bound=0.02)
    ExponentiatedGradient(learner, moment).fit(columns, problem.label, sensitive_features=problem.s)


def fairlearn_columns(problem: Problem) -> None:
    """On the columns as they are."""
    reduction(problem, problem.X)


def fairlearn_psi(problem: Problem) -> None:
    """On kernel coordinates."""
    from sklearn.kernel_approximation import Nystroem

    psi = Nystroem(gamma=GAMMA, n_components=problem.case.D, random_state=0)
    reduction(problem, psi.fit_transform(problem.X))


def paper(problem: Problem, route: str) -> None:
    """The dense algorithm of the paper for one dial value, from the tests."""
    from sklearn.metrics.pairwise import rbf_kernel
    from tests.golden import oracle

    labels = np.where(problem.label > 0, 1.0, -1.0)
    oracle.paper_model(
        rbf_kernel(problem.X, gamma=GAMMA),
        labels,
        problem.s[:, None].astype(float),
        criterion="sp",
        m=1,
        d=1,
        eta=1e-4,
        eps_list=[1.0],
        route=route,
    )


@dataclass(frozen=True)
class Method:
    """A method: how to run, name and draw it, and its sizes within the limits."""

    name: str
    run: Callable[[Problem], None]
    sizes: tuple[int, ...]
    gives: str  # result of one run
    colour: str
    has_features: bool = True  # whether the method has a number of features D


_ALL = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
# Okabe-Ito colours as in the figures of the frontier; only our methods are blue.
METHODS = {
    "fairspan": Method("fairspan, all fixed", ours_fixed, _ALL, "100 fair models", "#0072B2"),
    "fairspan-auto": Method(
        "fairspan, all automatic", ours_automatic, _ALL, "100 fair models", "#56B4E9"
    ),
    "nystroem": Method("Nystroem + Ridge", nystroem_ridge, _ALL, "one model, not fair", "#6E6E6E"),
    "kernel-ridge": Method(
        "KernelRidge",
        kernel_ridge,
        (1_000, 3_000, 10_000, 15_000),
        "one model, not fair",
        "#009E73",
        has_features=False,
    ),
    "sklearn-gp": Method(
        "scikit-learn GP",
        sklearn_gp,
        (1_000, 3_000, 10_000),
        "one model, not fair",
        "#000000",
        has_features=False,
    ),
    "gpytorch": Method(
        "GPyTorch exact GP",
        gpytorch_gp,
        (1_000, 3_000, 6_000),
        "one model, not fair",
        "#CC79A7",
        has_features=False,
    ),
    "fairlearn": Method(
        "fairlearn EG, columns",
        fairlearn_columns,
        _ALL,
        "one fair model",
        "#E69F00",
        has_features=False,
    ),
    "fairlearn-psi": Method(
        "fairlearn EG, kernel", fairlearn_psi, _ALL[:4], "one fair model", "#B37400"
    ),
    "paper-printed": Method(
        "paper, as printed",
        lambda p: paper(p, "literal"),
        (250, 500, 1_000),
        "one fair model",
        "#D55E00",
        has_features=False,
    ),
    "paper-dense": Method(
        "paper, symmetric",
        lambda p: paper(p, "residual"),
        (500, 1_000, 3_000),
        "one fair model",
        "#A34700",
        has_features=False,
    ),
}


def cases(*, quick: bool = False) -> list[Case]:
    """Everything that ``growth`` measures; D is 0 where a method has none."""
    in_rows = [
        Case(key, n, 1000 if method.has_features else 0)
        for key, method in METHODS.items()
        for n in method.sizes
    ]
    if quick:
        # Methods without features are cubic in the number of rows.
        small = [case for case in in_rows if case.n <= (3_000 if case.D else 1_000)]
        return [case for case in small if case.method != "paper-printed" or case.n < 1_000]
    others = [
        *(Case("fairspan", 50_000, D) for D in (250, 500, 1000, 2048)),
        *(Case("fairspan", 50_000, 500, attributes=k) for k in (2, 4, 8)),
        *(Case("fairspan", 50_000, 500, cells=k) for k in (2, 5, 10)),
    ]
    return others + in_rows


# --------------------------------------------------------------------------------------------
# Measuring
# --------------------------------------------------------------------------------------------
def status_mib(key: str) -> float:
    """A line of this process's status, in MiB."""
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"{key}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


def measure_here(case: Case) -> dict[str, float]:
    """CPU seconds and MiB above the data, in this process."""
    run = METHODS[case.method].run
    limit = 3 * MOST_SECONDS  # runs between the two limits are reported as too slow
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = Case(case.method, 400, min(case.D, 50), case.attributes, case.cells)
        run(Problem.make(few))  # warm-up: imports, and buffers of libraries
        problem = Problem.make(case)
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        before = status_mib("VmRSS")
        seconds, _ = cpu(lambda: run(problem))
        return {"cpu_seconds": seconds, "peak_mib": status_mib("VmHWM") - before}


def measure(case: Case) -> dict[str, float] | None:
    """Measure in a new process; None if it failed or exceeded the limits."""
    one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", "one", *case.key],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **one_thread},
    )
    if done.returncode != 0:
        print(f"  failed: {done.stderr.strip()[-200:]}", flush=True)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    within = found["cpu_seconds"] <= MOST_SECONDS and found["peak_mib"] <= MOST_MIB
    if not within:
        print(f"  beyond the limits: {found}", flush=True)
    return found if within else None


@dataclass
class Table:
    """Results, appended to a file as they are measured."""

    path: Path | None
    rows: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)

    COLUMNS = (
        "method",
        "n",
        "D",
        "attributes",
        "cells",
        "cpu_seconds",
        "peak_mib",
        "repeats",
    )

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read the file; an empty table if it does not exist."""
        table = cls(path)
        if path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    table.rows[tuple(row[name] for name in cls.COLUMNS[:5])] = row
        return table

    def put(self, case: Case, found: list[dict[str, float]]) -> None:
        """Medians over the repeats so far."""
        seconds, peak = (
            float(np.median([one[what] for one in found])) for what in ("cpu_seconds", "peak_mib")
        )
        values = (*case.key, f"{seconds:.3f}", f"{peak:.0f}", str(len(found)))
        self.rows[case.key] = dict(zip(self.COLUMNS, values, strict=True))
        if self.path is not None:
            self._write()

    def _write(self) -> None:
        assert self.path is not None
        order = {case.key: i for i, case in enumerate(cases())}
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows[k] for k in sorted(self.rows, key=lambda k: order.get(k, 0)))

    def number(self, case: Case, what: str = "cpu_seconds") -> float | None:
        """One entry, None where it was not measured."""
        row = self.rows.get(case.key)
        return None if row is None else float(row[what])

    def series(self, method: str, what: str = "cpu_seconds") -> tuple[np.ndarray, np.ndarray]:
        """Rows and a column of a method's growth in n."""
        D = 1000 if METHODS[method].has_features else 0
        pairs = [(n, self.number(Case(method, n, D), what)) for n in METHODS[method].sizes]
        kept = [(n, value) for n, value in pairs if value is not None]
        return np.array([n for n, _ in kept], float), np.array([v for _, v in kept], float)


def growth(*, quick: bool = False, again: bool = False) -> Table:
    """Measure the missing cases in rounds, so that repeats are spread over time."""
    table = Table(None) if quick else Table.read(RESULTS)
    wanted = [case for case in cases(quick=quick) if again or case.key not in table.rows]
    found: dict[Case, list[dict[str, float]]] = {case: [] for case in wanted}
    failed: set[Case] = set()
    for turn in range(1 if quick else REPEATS):
        for i, case in enumerate(wanted, start=1):
            slow = turn > 0 and found[case] and found[case][0]["cpu_seconds"] > REPEAT_BELOW
            if slow or case in failed:
                continue
            one = measure(case)
            where = f"[round {turn + 1}, {i}/{len(wanted)}] {' '.join(case.key)}"
            if one is None:
                failed.add(case)
                print(f"{where}: left out", flush=True)
                continue
            found[case].append(one)
            table.put(case, found[case])
            print(f"{where}: {one['cpu_seconds']:.2f} s, {one['peak_mib']:.0f} MiB", flush=True)
    return table


def exponent(sizes: np.ndarray, values: np.ndarray, last: int = 3) -> float:
    """Slope of log value over log size for the last sizes; NaN if the values are only rounding."""
    if len(sizes) < 2 or values[-last:].min() <= 0.0:
        return float("nan")
    return float(np.polyfit(np.log(sizes[-last:]), np.log(values[-last:]), 1)[0])


# --------------------------------------------------------------------------------------------
# Page and figure
# --------------------------------------------------------------------------------------------
def sizes_label(n: float) -> str:
    """1k, 300k, 250."""
    return f"{n / 1000:g}k" if n >= 1000 else f"{n:g}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(value: float) -> str:
    """Three digits, no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def by_rows(table: Table, what: str) -> str:
    """Seconds or MiB of every method at every size; beside seconds, the ratio to ours."""
    columns = sorted({n for method in METHODS.values() for n in method.sizes})
    rows = []
    for key, method in METHODS.items():
        sizes, values = table.series(key, what)
        known = dict(zip(sizes, values, strict=True))
        cells = [_cell(table, known.get(n), n, key, what) for n in columns]
        slope = exponent(sizes, values)
        last = "" if np.isnan(slope) else f"{slope:.2f}"
        rows.append([method.name, method.gives, *cells, last])
    head = ["method", "one run gives", *map(sizes_label, columns), "exponent"]
    return markdown(head, rows)


def _cell(table: Table, value: float | None, n: int, key: str, what: str) -> str:
    if value is None:
        return ""
    base = table.number(Case("fairspan", n))
    if what != "cpu_seconds" or key == "fairspan" or base is None:
        return short(value)
    return f"{short(value)} ({short(value / base)})"


def sweep(table: Table, what: str, sweep_cases: list[tuple[str, Case]]) -> str:
    """Our measurements as a function of one other size."""
    known = [(label, case) for label, case in sweep_cases if case.key in table.rows]
    base = table.number(known[0][1]) or float("nan")
    rows = []
    for label, case in known:
        seconds, peak = table.number(case), table.number(case, "peak_mib")
        assert seconds is not None
        assert peak is not None
        rows.append([label, f"{seconds:.2f}", f"{seconds / base:.2f}", short(peak)])
    return markdown([what, "CPU seconds", "over the first", "peak MiB"], rows)


def page(table: Table) -> str:
    """All tables, each below the command that measures it."""
    features = [(str(D), Case("fairspan", 50_000, D)) for D in (250, 500, 1000, 2048)]
    several = [(str(k), Case("fairspan", 50_000, 500, attributes=k)) for k in (1, 2, 4, 8)]
    strata = [(str(k), Case("fairspan", 50_000, 500, cells=k)) for k in (1, 2, 5, 10)]
    parts = [
        "# Tables of time and memory",
        "Written by `python -m benchmarks.scale page` (in `.venv-bench`); do not edit.",
        "CPU time of one thread and peak memory above the data. The machine was shared: compare ratios,\n"
        "to about 15 %.",
        f"- Each measurement is a fresh process; medians of up to {REPEATS} interleaved repeats (once if it\n"
        f"  takes more than {REPEAT_BELOW:g} s).\n"
        f"- Sizes that take more than {MOST_SECONDS} s or {MOST_MIB // 1024} GiB are left out; nothing is\n"
        "  extrapolated.\n"
        "- fairlearn and the paper fit a binary label, the others a number.",
        "## By rows",
        f"`python -m benchmarks.scale growth`: CPU seconds at p = {P} and D = 1000, with the ratio to\n"
        "fairspan with everything fixed in brackets. The exponent is the log-log slope over the last three\n"
        "sizes; it is below 1 where work that does not grow with n (D^3) still matters.\n"
        f"GPyTorch makes {ADAM_STEPS} Adam steps, fairlearn fits one value of its bound, the paper's\n"
        "algorithm one dial value.",
        by_rows(table, "cpu_seconds"),
        f"![CPU seconds and peak memory over rows](figures/{FIGURE.name})",
        "`python -m benchmarks.scale growth`: peak MiB above the data.",
        by_rows(table, "peak_mib"),
        "## By landmarks, attributes and cells",
        "`python -m benchmarks.scale growth`: fairspan with everything fixed, n = 50,000.",
        sweep(table, "landmarks D", features),
        "Binary protected attributes, D = 500.",
        sweep(table, "attributes", several),
        "Cells of conditional statistical parity, D = 500; one cell is statistical parity.",
        sweep(table, "cells", strata),
    ]
    return "\n\n".join(parts) + "\n"


def draw(table: Table, path: Path) -> None:
    """CPU seconds and peak memory over rows, every curve labelled at its end."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(11.5, 5.0), layout="constrained", dpi=100)
    units = (("cpu_seconds", "CPU seconds of a fit"), ("peak_mib", "peak MiB above the data"))
    for ax, (what, title) in zip(axes, units, strict=True):
        _panel(ax, table, what)
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_xlabel("rows n")
    fig.savefig(path)
    plt.close(fig)


def _panel(ax: Any, table: Table, what: str) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ends = []
    for key, method in METHODS.items():
        sizes, values = table.series(key, what)
        if len(sizes) == 0:
            continue
        wide = 2.4 if key.startswith("fairspan") else 1.3
        seen = np.where(values >= _LEAST[what], values, np.nan)
        ax.plot(sizes, seen, "o-", color=method.colour, lw=wide, ms=4)
        ends.append((float(sizes[-1]), float(values[-1]), method))
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.35)  # room for names above, and at the right
    ax.set_xlim(200, 4_000_000)
    ax.set_xticks([1e3, 1e4, 1e5], ["1,000", "10,000", "100,000"])
    ax.set_xticks([], minor=True)
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.grid(which="major", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    _label_ends(ax, ends)


def _label_ends(ax: Any, ends: list[tuple[float, float, Method]]) -> None:
    """Place names at the last points: above curves that end early, else at the right, separated."""
    low, high = np.log10(ax.get_ylim())
    free, step = low, 0.045 * (high - low)
    for x, y, method in sorted(ends, key=lambda end: end[1]):
        look = {
            "color": method.colour,
            "fontsize": 8.5,
            "annotation_clip": False,
            "bbox": {"fc": "white", "ec": "none", "pad": 0.3},
            "zorder": 1.9,
        }
        if x < _STEEP_BELOW:
            ax.annotate(
                method.name,
                (x, y),
                (0, 5),
                textcoords="offset points",
                rotation=90,
                ha="center",
                va="bottom",
                **look,
            )
            continue
        height = max(float(np.log10(y)), free)
        free = height + step
        ax.annotate(method.name, (x, y), (x * 1.2, 10**height), va="center", **look)


# --------------------------------------------------------------------------------------------
# Commands
# --------------------------------------------------------------------------------------------
def parse() -> argparse.Namespace:
    """Arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    grow = commands.add_parser("growth", help="measure what is not in the results yet")
    grow.add_argument("--quick", action="store_true", help="small sizes, once; writes nothing")
    grow.add_argument("--again", action="store_true", help="measure everything anew")
    commands.add_parser("page", help="figure and tables from the results")
    one = commands.add_parser("one", help="one measurement, in this process")
    one.add_argument("method", choices=list(METHODS))
    for name in ("n", "D", "attributes", "cells"):
        one.add_argument(name, type=int)
    return parser.parse_args()


def main() -> int:
    """Run a command."""
    asked = parse()
    if asked.command == "one":
        case = Case(asked.method, asked.n, asked.D, asked.attributes, asked.cells)
        print(json.dumps(measure_here(case)))
        return 0
    if asked.command == "growth":
        table = growth(quick=asked.quick, again=asked.again)
        print(by_rows(table, "cpu_seconds"))
        return 0
    table = Table.read(RESULTS)
    draw(table, FIGURE)
    PAGE.write_text(page(table))
    print(f"{PAGE.relative_to(ROOT)}, {FIGURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
