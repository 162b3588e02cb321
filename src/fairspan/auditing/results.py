"""``audit`` and its result: how a model treats groups of people, with intervals."""

from __future__ import annotations

import json
import warnings as python_warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, mean_squared_error

from fairspan._html import audit_html
from fairspan._system import atomic_write, json_safe, printable_json, track
from fairspan._threads import count_rows, few_threads, with_few_threads
from fairspan.auditing.alternatives import SearchSettings, find_alternatives
from fairspan.auditing.alternatives_result import Alternatives
from fairspan.auditing.any_classifier import AnyClassifier, CellCriterion, bound_any_classifier
from fairspan.auditing.attackers import ATTACKERS
from fairspan.auditing.cross_fit import KernelCheck
from fairspan.auditing.documents import to_fragment, to_markdown, to_page
from fairspan.auditing.findings import SECTIONS, Finding
from fairspan.auditing.markdown import ASSUMPTIONS, markdown, summary, warnings_of
from fairspan.auditing.model_space import HeldOutBound
from fairspan.auditing.parts import PARTS, Settings, finish, gather, unavailable_parts
from fairspan.auditing.plot import AuditDisplay
from fairspan.auditing.proxy import Proxy
from fairspan.auditing.reading import Audited, read_audit
from fairspan.auditing.templates import document
from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.inputs.checks import refuse
from fairspan.inputs.config import read_seed
from fairspan.method.problem import Codes
from fairspan.metrics.groups import count_clusters
from fairspan.metrics.inputs import SensitiveKind


@dataclass(frozen=True, repr=False)
class Audit:
    """Results of an audit; made by :func:`audit`.

    Attributes
    ----------
    model : str
        Name of the audited model, or "scores" or "decisions".
    n_rows : int
        Number of audited rows, without those of weight zero.
    level : float
        Confidence level of the intervals.
    group_sizes : dict
        Attribute -> group -> its number of rows. Combinations of all attributes, and strata of the
        control features, are attributes here.
    findings : tuple of Finding
        Every number, in the order of :data:`SECTIONS`.
    proxies : tuple of Proxy
        Most correlated component of a linear score, per attribute, with its coordinates.
    bounds : tuple of HeldOutBound
        Certificate on these rows, for all functions of the representation at once.
    kernel : KernelCheck or None
        Whether the kernel space predicts as well as other models.
    settings : dict
        Parameters of the audit, the positive class ("positive"), and the parts that could not be
        computed, with the reason ("not_made").
    rows : Audited or None
        The audited rows as clean arrays; they are in no file that is written.
    fitted_share : float or None
        Share of the audited rows that the model was fitted on; None if no such row was recognised.
        With a share, the numbers hold for these rows, not for new people.
    n_clusters : int or None
        Number of clusters of rows that belong together (``groups``); None if rows are independent.
    group_clusters : dict
        Attribute -> group -> its number of clusters; empty if rows are independent.
    n_without_sensitive : int
        Rows left out because they lack a protected attribute.
    """

    model: str
    n_rows: int
    level: float
    group_sizes: dict[str, dict[str, int]]
    findings: tuple[Finding, ...]
    proxies: tuple[Proxy, ...] = ()
    bounds: tuple[HeldOutBound, ...] = ()
    kernel: KernelCheck | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rows: Audited | None = None
    fitted_share: float | None = None
    n_clusters: int | None = None
    group_clusters: dict[str, dict[str, int]] = field(default_factory=dict)
    n_without_sensitive: int = 0

    # ------------------------------------------------------------------ numbers

    def select(
        self,
        section: str | None = None,
        *,
        metric: str | None = None,
        attribute: str | None = None,
        where: str | None = None,
        group: str | None = None,
    ) -> list[Finding]:
        """Findings of one section, metric, attribute, set of rows or group; None matches any."""
        if section is not None and section not in SECTIONS:
            raise ValueError(f"section={section!r} is unknown: one of {', '.join(SECTIONS)}")

        def matches(f: Finding) -> bool:
            wanted = section, metric, attribute, where, group
            values = f.section, f.metric, f.attribute, f.where, f.group
            return all(a is None or a == b for a, b in zip(wanted, values, strict=True))

        return [finding for finding in self.findings if matches(finding)]

    def value(self, metric: str, attribute: str = "", where: str = "", group: str = "") -> float:
        """Value of one finding, by its name."""
        selected = self.select(metric=metric, attribute=attribute, where=where, group=group)
        if not selected:
            known = sorted({f.metric for f in self.findings if f.attribute == attribute})
            of = f" of {attribute!r}" if attribute else ""
            raise ValueError(f"there is no {metric!r}{of}. Known: {', '.join(known)}")
        return selected[0].value

    def table(self, section: str | None = None, **wanted: Any) -> Any:
        """One row per finding: a pandas DataFrame, or a list of dicts if pandas is not installed.

        Parameters
        ----------
        section, **wanted
            As in :meth:`select`.
        """
        rows = [asdict(finding) for finding in self.select(section, **wanted)]
        try:
            import pandas as pd
        except ImportError:
            return rows
        return pd.DataFrame(rows, columns=list(Finding.__dataclass_fields__))

    def metric_frame(self, metrics: Any = None) -> Any:
        """The audited rows as fairlearn's ``MetricFrame`` (needs fairlearn).

        Parameters
        ----------
        metrics : callable or dict, optional
            As in MetricFrame. Default: selection rate, true and false positive rate and accuracy; for
            a regression, mean prediction and mean squared error.
        """
        if self.rows is None:
            raise ValueError("metric_frame needs the rows, which this audit does not hold.")
        return _metric_frame(self.rows, metrics)

    def alternatives(
        self,
        *,
        search: Any = "kernel",
        criterion: str = "statistical_parity",
        compare: str = "auto",
        threshold: float | None = None,
        test_share: float = 0.25,
        n_boot: int = 1000,
        n_points: int = 41,
        random_state: Any = 0,
    ) -> Alternatives:
        """Compare the audited model with models of fairspan on held-out rows of this audit.

        It needs an audit with X and y; confidence level and ``min_rows`` are those of the audit. Strata of
        control features are not used.

        Parameters
        ----------
        search, criterion, compare, threshold, test_share, n_boot, n_points, random_state
            As in :func:`fairspan.auditing.alternatives`.
        """
        if self.rows is None:
            raise ValueError("alternatives needs the rows, which this audit does not hold.")
        settings = SearchSettings(
            search=search,
            criterion=criterion,
            compare=compare,
            threshold=threshold,
            test_share=test_share,
            level=self.level,
            n_boot=n_boot,
            n_points=n_points,
            min_rows=self.settings.get("min_rows", 30),
            random_state=random_state,
        )
        with each_warning_once(), few_threads(self.rows.n):
            return find_alternatives(self.rows, settings)

    def any_classifier(
        self,
        k: int | None = None,
        *,
        edges: Any = None,
        criterion: CellCriterion = "statistical_parity",
        random_state: Any = 0,
    ) -> AnyClassifier:
        """Limit the gaps of every classifier that reads only which of k cells the score is in.

        The limits hold in finite samples for all sets of cells, rules that use chance and pairs of groups
        at once, with the confidence of the audit for all attributes together. Groups of fewer than
        ``min_rows`` rows are left out and named. Strata of control features are not used.

        Parameters
        ----------
        k : int, optional
            Number of cells, from 2 up; required unless edges are given. Edges are then quantiles of the
            score in a fifth of the rows, at most 100 for each cell, which do not count afterwards.
        edges : array-like of shape (k - 1,), optional
            Upper ends of all cells but the last one, within the range of the scores. A cell contains its
            upper end, so that a threshold selects score > edge: of grades 1 to 5, ``edges=[3]`` selects 4
            and 5. Edges are in the units of what is audited: scores as given, or of a model
            ``decision_function`` if it has one, otherwise ``predict_proba`` (of two classes, the second)
            or ``predict``. Decisions count as 1 for the favourable class and 0 for others. ``output`` of
            the result names it. Choose edges without the audited rows.
        criterion : str, default="statistical_parity"
            "statistical_parity", "equal_opportunity" or "equalized_odds": compare selection rates among
            all rows, among those of the favourable class, or among those of each class.
        random_state : int, RandomState or None, default=0
            Seed of the rows that set the edges.

        Returns
        -------
        AnyClassifier

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import audit
        >>> rng = np.random.default_rng(0)
        >>> s = rng.integers(0, 2, 4000)
        >>> result = audit(rng.random(4000), sensitive_features={"sex": s}, parts=["scores"])
        >>> result.any_classifier(5).bound("sex") < 0.1
        True
        """
        if self.rows is None:
            raise ValueError("any_classifier needs the rows, which this audit does not hold.")
        return bound_any_classifier(
            self.rows,
            k,
            edges=edges,
            criterion=criterion,
            level=self.level,
            min_rows=self.settings.get("min_rows", 30),
            random_state=random_state,
        )

    # ------------------------------------------------------------------ output

    def plot(self, ax: Any = None, *, attribute: str | None = None) -> Any:
        """Plot gaps and attacks with their intervals (needs matplotlib)."""
        return AuditDisplay(self).plot(ax, attribute=attribute)

    @property
    def groups(self) -> dict[str, dict[str, int]]:
        """Deprecated name of ``group_sizes``."""
        python_warnings.warn(
            "Audit.groups is now Audit.group_sizes; the old name goes in version 0.3.0.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.group_sizes

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts; None for NaN and missing parts."""
        from fairspan import __version__

        names = "model", "n_rows", "n_clusters", "fitted_share", "level", "settings"
        out: dict[str, Any] = {"fairspan": __version__, **{n: getattr(self, n) for n in names}}
        if self.n_without_sensitive:
            out["n_without_sensitive"] = self.n_without_sensitive
        out |= {"groups": self.group_sizes, "group_clusters": self.group_clusters}
        out["findings"] = [asdict(finding) for finding in self.findings]
        out["proxies"] = [asdict(proxy) for proxy in self.proxies]
        out["bounds"] = [asdict(bound) for bound in self.bounds]
        out["kernel"] = None if self.kernel is None else asdict(self.kernel)
        out |= {"assumptions": self.assumptions, "warnings": list(self.warnings)}
        plain: dict[str, Any] = json_safe(out)
        return plain

    def to_json(self, path: Any = None, *, indent: int = 2) -> str:
        """JSON of :meth:`to_dict`; written to ``path`` too if given."""
        text = json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)
        return write_text(printable_json(text) + "\n", path)

    def to_markdown(self, path: Any = None, *, template: str | None = None) -> str:
        """A section for a model card, or a whole document; written to ``path`` too if given.

        Parameters
        ----------
        path : path, optional
            File to write.
        template : {"adverse-impact", "ll144", "annex-iv", "model-card"}, optional
            "adverse-impact": selection rates, impact ratios, shortfalls and their significance. "ll144":
            rates by category and intersection as the rules of New York City ask. "annex-iv": the sections of
            technical documentation of the EU AI Act. "model-card". What only the people responsible know is
            marked as a line to fill in. No document draws a conclusion about law.
        """
        if template is None:
            return write_text(markdown(self), path)
        return write_text(to_markdown(document(self, template)), path)

    def to_html(self, path: Any = None, *, template: str | None = None) -> str:
        """A page without scripts; written to ``path`` too if given.

        Parameters
        ----------
        path : path, optional
            File to write.
        template : {"adverse-impact", "ll144", "annex-iv", "model-card"}, optional
            As in :meth:`to_markdown`. None: what notebooks show of an audit.
        """
        title = f"Audit of {self.model}"
        body = self._repr_html_() if template is None else to_fragment(document(self, template))
        return write_text(to_page(title, body), path)

    @property
    def assumptions(self) -> str:
        """Assumptions of the intervals and bounds, in words."""
        return ASSUMPTIONS

    @property
    def warnings(self) -> tuple[str, ...]:
        """The most important findings, one sentence each."""
        return warnings_of(self)

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        return audit_html(self, self.warnings)


def _metric_frame(data: Audited, metrics: Any) -> Any:
    """Decisions (1 for the single positive class) or predictions, by all attributes at once."""
    try:
        fairlearn = import_module("fairlearn.metrics")
    except ImportError as error:
        raise ImportError('metric_frame needs fairlearn: pip install "fairlearn>=0.12".') from error
    if data.target is None:
        raise ValueError("metric_frame needs y; the audit was made without.")
    if not data.attributes:
        msg = "metric_frame needs the group of each row, and the audit was given probabilities."
        raise ValueError(msg)
    y: Any = data.target.values
    if data.classes is None:
        if data.scores is None or data.scores.shape[1] != 1 or y is None:
            raise ValueError("metric_frame needs one prediction per row.")
        predicted: Any = data.scores[:, 0]
        default = {"mean_prediction": fairlearn.mean_prediction}
        default["mean_squared_error"] = mean_squared_error
    elif data.decided is None:
        raise ValueError("metric_frame needs decisions; the audit was given scores alone.")
    elif len(data.positive) == 1:
        (k,) = data.positive
        y, predicted = (data.target.codes == k).astype(int), (data.decided == k).astype(int)
        names = "selection_rate", "true_positive_rate", "false_positive_rate"
        default = {name: getattr(fairlearn, name) for name in names}
        default["accuracy"] = accuracy_score
    else:
        y, predicted = data.classes[data.target.codes], data.classes[data.decided]
        default = {"accuracy": accuracy_score}
    metrics = default if metrics is None else metrics
    weights: Any = {"sample_weight": data.weight}
    strata = data.strata
    return fairlearn.MetricFrame(
        metrics=metrics,
        y_true=y,
        y_pred=predicted,
        sensitive_features={a.name: np.array(a.labels, object)[a.codes] for a in data.attributes},
        control_features=strata and {strata.name: np.array(strata.labels)[strata.codes]},
        sample_params=dict.fromkeys(metrics, weights) if isinstance(metrics, dict) else weights,
    )


def write_text(text: str, path: Any) -> str:
    """Write the text to ``path`` if one is given, and return it."""
    if path is not None:
        with atomic_write(Path(path)) as part:
            part.write_text(text, encoding="utf-8")
    return text


@with_few_threads(lambda model_or_scores, X=None, y=None, **_: count_rows(X, y, model_or_scores))
def audit(
    model_or_scores: Any,
    X: Any = None,
    y: Any = None,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    decisions: Any = None,
    representation: Any = None,
    pos_label: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    intersectional: bool = True,
    n_bins: int = 10,
    parts: Sequence[str] | None = None,
    attackers: Sequence[str] = ATTACKERS,
    level: float = 0.95,
    n_boot: int = 500,
    n_permutations: int = 499,
    min_rows: int = 30,
    max_attack_rows: int = 10_000,
    n_folds: int = 5,
    random_state: Any = 0,
    verbose: int = 0,
    groups: Any = None,
    missing_sensitive: str = "raise",
) -> Audit:
    """Audit a model, or plain scores and decisions, on rows it was not fitted on.

    Rows that a fairspan model was fitted on are recognised, also inside a pipeline: the audit then
    warns, and its report begins with this warning (``fitted_share``).

    Parameters
    ----------
    model_or_scores : fitted model, or array-like of shape (n_samples,) or (n_samples, n_outputs)
        A model with ``predict`` (or ``transform``) as in scikit-learn, or a pipeline; or the scores
        themselves. An array of labels is read as decisions.
    X : array-like or frame of shape (n_samples, n_features), optional
        Rows to audit on. Required for a model; with plain scores it is a reference for attackers.
    y : array-like of shape (n_samples,), optional
        True labels or numbers. Without y, no number that conditions on y is reported.
    sensitive_features : array-like, frame, mapping, or column names of X
        Protected attributes: categories or numbers, one or several.
    control_features : array-like, frame, mapping, or column names of X, optional
        Strata within which all findings about scores and decisions are repeated.
    sample_weight : array-like of shape (n_samples,), optional
        Weights; weight k is k copies of the row. Tests draw rows by them.
    decisions : array-like of shape (n_samples,), optional
        Decisions made from plain scores, or to be used instead of those of the model.
    representation : array-like of shape (n_samples, d), optional
        Representation to attack and to certify. Default: that of the model, if it has one.
    pos_label : label, optional
        The favourable class. Default: the ``pos_label`` of the model, if it has one; otherwise the
        larger of two labels, or each of more than two labels in turn.
    sensitive_kind : str, sequence or mapping, default="auto"
        "auto", "categorical" or "continuous", for all attributes or one for each. "probabilities", or
        ``{"race": "probabilities"}`` for the columns race_*: the probability of each group in every row.
        Scores and decisions are then compared between the true groups, if the probabilities are calibrated
        and scores depend on them only through the group; parts that need the group of each row are left out.
    intersectional : bool, default=True
        Report combinations of all attributes in addition to each attribute alone.
    n_bins : int, default=10
        Slices of a continuous attribute, and of a numeric y.
    parts : sequence of str, optional
        Parts to compute: some of "scores", "decisions", "tests", "attacks", "proxies", "certificate",
        "kernel". Default: all that can be computed.
    attackers : sequence of str, default=("linear", "kernel", "boosted")
        Models that try to recover an attribute.
    level : float, default=0.95
        Confidence level of all intervals and bounds.
    n_boot, n_permutations : int, default=500, 499
        Resamples of the rows, and permutations of a test on few rows.
    min_rows : int, default=30
        Groups with fewer (effective) rows are marked as small and left out of gaps. If no two groups
        are larger, all are compared, with wide intervals.
    max_attack_rows : int, default=10_000
        Largest number of rows that attackers use; more rows are sampled.
    n_folds : int, default=5
        Number of folds of all cross-fitted predictions.
    random_state : int, RandomState or None, default=0
        Seed of resamples, permutations and attackers. None: a different seed in each call.
    verbose : int, default=0
        1 shows a progress bar.
    groups : array-like of shape (n_samples,), or a column name of X, optional
        Clusters of rows that belong together, such as the rows of a patient or a household
        (scikit-learn's word; protected groups are ``sensitive_features``). Resamples, standard errors
        and folds then have whole clusters, tests use one row of each, and ``min_rows`` counts
        clusters. Default: rows are independent.
    missing_sensitive : {"raise", "omit"}, default="raise"
        "omit" leaves out rows that lack a protected attribute; the report says how many rows there are.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import audit
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 400)
    >>> score = rng.normal(size=400) + 0.5 * s
    >>> y = (score + rng.normal(size=400) > 0).astype(int)
    >>> decisions = (score > 0).astype(int)
    >>> parts = ["scores", "decisions"]
    >>> result = audit(score, y=y, decisions=decisions, sensitive_features={"sex": s}, parts=parts)
    >>> gap = result.select(metric="demographic_parity_difference")[0]
    >>> bool(gap.low <= gap.value <= gap.high)
    True
    """
    settings = Settings(
        level=level,
        n_boot=n_boot,
        n_permutations=n_permutations,
        min_rows=min_rows,
        max_attack_rows=max_attack_rows,
        n_folds=n_folds,
        attackers=attackers,
        parts=PARTS if parts is None else parts,
    )
    if missing_sensitive not in ("raise", "omit"):
        refuse("missing_sensitive", missing_sensitive, "'raise' or 'omit'")
    with each_warning_once():  # the model reads the same rows several times
        data = read_audit(
            model_or_scores,
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            decisions=decisions,
            representation=representation,
            pos_label=pos_label,
            sensitive_kind=sensitive_kind,
            n_bins=n_bins,
            intersectional=intersectional,
            with_features=bool({"attacks", "kernel"} & set(settings.parts)),
            groups=groups,
            with_intervals="decisions" in settings.parts,
            omit_missing=missing_sensitive == "omit",
        )
    unavailable = {k: why for k, why in unavailable_parts(data).items() if k in settings.parts}
    if len(unavailable) == len(settings.parts):
        part, why = next(iter(unavailable.items()))
        names = ", ".join(unavailable)
        raise ValueError(f"None of the requested parts ({names}) can be computed. {part!r} {why}.")
    seed = read_seed(random_state).randint(2**31 - 1)
    case, steps = gather(data, settings, np.random.default_rng(seed))
    for _, work in track(steps, len(steps), "audit", verbose=verbose):
        work()
    out = Audit(
        model=data.name,
        n_rows=data.n,
        level=level,
        group_sizes=_group_sizes(data),
        findings=tuple(sorted(finish(case), key=lambda f: SECTIONS.index(f.section))),
        proxies=tuple(case.proxies),
        bounds=tuple(case.bounds),
        kernel=case.kernel,
        settings=_settings_dict(settings, data, unavailable),
        rows=data,
        fitted_share=data.fitted_share,
        n_without_sensitive=data.n_without_sensitive,
        n_clusters=None if data.clusters is None else int(data.clusters.max()) + 1,
        group_clusters={} if data.clusters is None else _group_sizes(data, data.clusters),
    )
    if data.fitted_share is not None:
        warn_user(out.warnings[0], DataWarning)
    if case.kernel is not None and case.kernel.misspecified:
        warn_user(case.kernel.message, DataWarning)
    return out


def _group_sizes(data: Audited, clusters: Codes | None = None) -> dict[str, dict[str, int]]:
    """Number of rows, or clusters, of each group of each attribute, and of each stratum."""
    attributes = {attribute.name: attribute for attribute in data.groupings}
    if data.strata is not None:  # a control feature may be a protected attribute, too
        attributes[f"strata of {data.strata.name}"] = data.strata
    out = {}
    for name, attribute in attributes.items():
        counts = count_clusters(attribute.codes, len(attribute.labels), clusters)
        out[name] = dict(zip(attribute.labels, counts.tolist(), strict=True))
    for probable in data.probable if clusters is None else ():
        expected = np.rint(probable.values.astype(np.float64).sum(axis=0)).astype(int).tolist()
        out[probable.name] = dict(zip(probable.groups, expected, strict=True))
    return out


def _settings_dict(
    settings: Settings, data: Audited, unavailable: dict[str, str]
) -> dict[str, Any]:
    out = {
        key: list(v) if key in ("attackers", "parts") else v for key, v in asdict(settings).items()
    }
    classes = data.classes
    out["positive"] = [] if classes is None else [str(classes[k]) for k in data.positive]
    return out | {"not_made": unavailable}
