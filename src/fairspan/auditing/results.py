"""``audit``: everything that can be said about a model's treatment of groups, and how surely."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._html import audit_html
from fairspan._system import atomic_write, json_safe, printable_json, track
from fairspan.auditing.attack import ATTACKERS
from fairspan.auditing.bound import HeldOutBound
from fairspan.auditing.cross_fit import KernelCheck
from fairspan.auditing.findings import SECTIONS, Finding
from fairspan.auditing.parts import Settings, finish, gather, not_made
from fairspan.auditing.proxy import Proxy
from fairspan.auditing.reading import Audited, Protected, read_audit
from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.inputs.rows import read_seed
from fairspan.metrics.inputs import SensitiveKind

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit found; made by :func:`audit`.

    Attributes
    ----------
    model : str
        What was audited.
    n_rows : int
        Rows it was audited on, without those of weight zero.
    level : float
        Of the intervals.
    groups : dict
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
        Parameters it was made with, the positive class, and parts that could not be made, with the reason.
    rows : Audited or None
        What was audited, as clean arrays; in no file that is written.
    fitted_share : float or None
        Share of the audited rows that the model was fitted on; None where no such rows can be shown.
        The numbers then hold for these rows, not for new people.
    """

    model: str
    n_rows: int
    level: float
    groups: dict[str, dict[str, int]]
    findings: tuple[Finding, ...]
    proxies: tuple[Proxy, ...] = ()
    bounds: tuple[HeldOutBound, ...] = ()
    kernel: KernelCheck | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rows: Audited | None = None
    fitted_share: float | None = None

    # ------------------------------------------------------------------ numbers

    def select(
        self, section: str | None = None, *, metric: str | None = None,
        attribute: str | None = None, where: str | None = None, group: str | None = None,
    ) -> list[Finding]:  # fmt: skip
        """Findings of one section, metric, attribute, place or group; all that is not given is any."""
        if section is not None and section not in SECTIONS:
            raise ValueError(f"section={section!r} is unknown: one of {', '.join(SECTIONS)}")
        wanted = {
            "section": section, "metric": metric, "attribute": attribute, "where": where,
            "group": group,
        }  # fmt: skip
        return [
            one
            for one in self.findings
            if all(value is None or getattr(one, key) == value for key, value in wanted.items())
        ]

    def value(self, metric: str, attribute: str = "", where: str = "", group: str = "") -> float:
        """One number, by name."""
        found = self.select(metric=metric, attribute=attribute, where=where, group=group)
        if not found:
            known = sorted({one.metric for one in self.findings if one.attribute == attribute})
            place = f" of {attribute!r}" if attribute else ""
            raise ValueError(f"there is no {metric!r}{place}. Known: {', '.join(known)}")
        return found[0].value

    def table(self, section: str | None = None, **wanted: Any) -> Any:
        """One row per finding: a pandas DataFrame, or a list of dicts where pandas is absent.

        Parameters
        ----------
        section, **wanted
            As in :meth:`select`.
        """
        rows = [asdict(one) for one in self.select(section, **wanted)]
        try:
            import pandas as pd
        except ImportError:
            return rows
        return pd.DataFrame(rows, columns=list(Finding.__dataclass_fields__))

    def metric_frame(self, metrics: Any = None) -> Any:
        """The same rows as fairlearn's ``MetricFrame`` (needs fairlearn).

        Parameters
        ----------
        metrics : callable or dict, optional
            As MetricFrame takes them; selection rate, true and false positive rate and accuracy if not
            given (of a regression: mean prediction and mean squared error).
        """
        from fairspan.auditing.markdown import metric_frame

        if self.rows is None:
            msg = "metric_frame needs the rows, which this audit does not hold."
            raise ValueError(msg)
        return metric_frame(self.rows, metrics)

    # ------------------------------------------------------------------ what people see

    def plot(self, ax: Any = None, *, attribute: str | None = None) -> Any:
        """Every gap and leak with its interval (extra: matplotlib)."""
        from fairspan.auditing.plot import AuditDisplay

        return AuditDisplay(self).plot(ax, attribute=attribute)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts; None for what is not known."""
        from fairspan import __version__

        out: dict[str, Any] = json_safe(
            {
                "fairspan": __version__, "model": self.model, "n_rows": self.n_rows,
                "fitted_share": self.fitted_share,
                "level": self.level, "settings": self.settings, "groups": self.groups,
                "findings": [asdict(one) for one in self.findings],
                "proxies": [asdict(one) for one in self.proxies],
                "bounds": [asdict(one) for one in self.bounds],
                "kernel": None if self.kernel is None else asdict(self.kernel),
                "assumptions": self.assumptions, "warnings": list(self.warnings),
            }
        )  # fmt: skip
        return out

    def to_json(self, path: Any = None, *, indent: int = 2) -> str:
        """JSON of everything; written to ``path`` too if given."""
        import json

        text = json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)
        return _written(printable_json(text) + "\n", path)

    def to_markdown(self, path: Any = None) -> str:
        """A section for a model card; written to ``path`` too if given."""
        from fairspan.auditing.markdown import markdown

        return _written(markdown(self), path)

    @property
    def assumptions(self) -> str:
        """What the intervals and bounds rest on, in words."""
        from fairspan.auditing.markdown import ASSUMPTIONS

        return ASSUMPTIONS

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must not miss."""
        from fairspan.auditing.markdown import warnings_of

        return warnings_of(self)

    def __repr__(self) -> str:
        from fairspan.auditing.markdown import summary

        return summary(self)

    def _repr_html_(self) -> str:
        return audit_html(self, self.warnings)


def _written(text: str, path: Any) -> str:
    if path is not None:
        with atomic_write(Path(path)) as part:
            Path(part).write_text(text, encoding="utf-8")
    return text


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
) -> Audit:
    """Audit a model, or plain scores and decisions, on rows it was not fitted on.

    Rows that a fairspan model was fitted on are recognised, also inside a pipeline: the audit then
    warns, and says so before its numbers (``fitted_share``).

    Parameters
    ----------
    model_or_scores : fitted model, or array-like of shape (n_samples,) or (n_samples, n_outputs)
        Anything with ``predict`` (or ``transform``) as in scikit-learn, pipelines too; or the scores
        themselves. An array of labels is taken as decisions.
    X : array-like or frame of shape (n_samples, n_features), optional
        Rows to audit on. Needed for a model; beside plain scores it is what attackers compare with.
    y : array-like of shape (n_samples,), optional
        True labels or numbers. Without it, nothing that conditions on y is reported.
    sensitive_features : array-like, frame, mapping, or column names of X
        Protected attributes: categories or numbers, one or several.
    control_features : array-like, frame, mapping, or column names of X, optional
        Strata within which everything about scores and decisions is repeated.
    sample_weight : array-like of shape (n_samples,), optional
        Weights; weight k is k copies of the row. Tests draw rows by them.
    decisions : array-like of shape (n_samples,), optional
        Decisions that go with plain scores, or instead of the model's own.
    representation : array-like of shape (n_samples, d), optional
        What to attack and to certify; the model's own by default, where it shows one.
    pos_label : label, optional
        The favourable class. If not given: the ``pos_label`` of the model, if it has one; otherwise the
        larger of two labels; of more, each in turn.
    sensitive_kind : str, sequence or mapping, default="auto"
        "auto", "categorical" or "continuous", for all attributes or one for each.
    intersectional : bool, default=True
        Report combinations of all attributes beside each alone.
    n_bins : int, default=10
        Slices of a continuous attribute, and of a numeric y.
    parts : sequence of str, optional
        Which of "scores", "decisions", "tests", "attacks", "proxies", "certificate", "kernel" to make;
        all that can be made if not given.
    attackers : sequence of str, default=("linear", "kernel", "boosted")
        Models that try to recover an attribute.
    level : float, default=0.95
        Of all intervals and bounds.
    n_boot, n_permutations : int, default=500, 499
        Resamples of the rows, and permutations of a test on few rows.
    min_rows : int, default=30
        Groups with fewer (effective) rows are marked as small and left out of gaps.
    max_attack_rows : int, default=10_000
        Attackers learn on a sample of at most so many rows.
    n_folds : int, default=5
        Folds of everything cross-fitted.
    random_state : int, RandomState or None, default=0
        Seed of resamples, permutations and attackers. None draws another one each time.
    verbose : int, default=0
        1 shows a progress bar.

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
    >>> found = audit(
    ...     score, y=y, decisions=(score > 0).astype(int), sensitive_features={"sex": s},
    ...     parts=["scores", "decisions"], random_state=0,
    ... )  # fmt: skip
    >>> gap = found.select(metric="demographic_parity_difference")[0]
    >>> bool(gap.low <= gap.value <= gap.high)
    True
    """
    settings = check_settings(
        level, n_boot, n_permutations, min_rows, max_attack_rows, n_folds, attackers, parts
    )
    with each_warning_once():  # the model reads the same rows several times
        data = read_audit(
            model_or_scores, X, y, sensitive_features=sensitive_features,
            control_features=control_features, sample_weight=sample_weight, decisions=decisions,
            representation=representation, pos_label=pos_label, sensitive_kind=sensitive_kind,
            n_bins=n_bins, intersectional=intersectional,
            with_features=any(part in settings.parts for part in ("attacks", "kernel")),
        )  # fmt: skip
    missing = {part: why for part, why in not_made(data).items() if part in settings.parts}
    if len(missing) == len(settings.parts):
        part, why = next(iter(missing.items()))
        raise ValueError(f"Nothing of {', '.join(missing)} can be made; {part!r} because {why}.")
    seed = read_seed(random_state).randint(2**31 - 1)
    evidence, steps = gather(data, settings, np.random.default_rng(seed))
    for _, work in track(steps, len(steps), "audit", verbose=verbose):
        work()
    findings = finish(evidence)
    order = {name: i for i, name in enumerate(SECTIONS)}
    findings.sort(key=lambda one: order[one.section])
    groups = {
        one.name: _sizes(one)
        for one in (*data.groupings, *([_named_apart(data.strata)] if data.strata else []))
    }
    out = Audit(
        data.name, data.n, level, groups, tuple(findings), tuple(evidence.proxies),
        tuple(evidence.bounds), evidence.kernel, _shown(settings, data, missing), data,
        data.fitted_share,
    )  # fmt: skip
    if data.fitted_share is not None:
        warn_user(out.warnings[0], DataWarning)
    if evidence.kernel is not None and evidence.kernel.misspecified:
        warn_user(evidence.kernel.message, DataWarning)
    return out


def _named_apart(strata: Protected) -> Protected:
    """A control feature may be a protected attribute, too."""
    return replace(strata, name=f"strata of {strata.name}")


def _sizes(one: Any) -> dict[str, int]:
    counts = np.bincount(one.codes, minlength=len(one.labels))
    return dict(zip(one.labels, counts.tolist(), strict=True))


def _shown(settings: Settings, data: Audited, missing: dict[str, str]) -> dict[str, Any]:
    out = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(settings).items()}
    classes = data.classes
    out["positive"] = [] if classes is None else [str(classes[k]) for k in data.positive]
    return out | {"not_made": missing}


_PARTS = SECTIONS[1:]


def check_settings(
    level: Any, n_boot: Any, n_permutations: Any, min_rows: Any, max_attack_rows: Any,
    n_folds: Any, attackers: Sequence[str], parts: Sequence[str] | None,
) -> Settings:  # fmt: skip
    if not isinstance(level, int | float | np.floating) or not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r} is not allowed; give a number between 0 and 1, as 0.95.")
    whole: dict[str, tuple[Any, int]] = {
        "n_boot": (n_boot, 20), "n_permutations": (n_permutations, 19), "min_rows": (min_rows, 1),
        "max_attack_rows": (max_attack_rows, 100), "n_folds": (n_folds, 2),
    }  # fmt: skip
    for name, (number, least) in whole.items():
        if type(number) is bool or not isinstance(number, numbers.Integral) or number < least:
            raise ValueError(
                f"{name}={number!r} is not allowed; give a whole number from {least} up."
            )
    for name, asked, known in (("parts", parts, _PARTS), ("attackers", attackers, ATTACKERS)):
        if isinstance(asked, str):
            raise ValueError(f"{name}={asked!r} is one text; give a list, as [{asked!r}].")
        if asked is not None and not isinstance(asked, Iterable):
            raise ValueError(f"{name}={asked!r} is not allowed; give some of {', '.join(known)}.")
        unknown = [one for one in asked or () if one not in known]
        if unknown:
            raise ValueError(f"{name} has {unknown[0]!r}; known are {', '.join(known)}.")
    if parts is not None and not list(parts):
        raise ValueError(f"parts is empty; give some of {', '.join(_PARTS)}, or leave it out.")
    return Settings(
        float(level), int(n_boot), int(n_permutations), int(min_rows), int(max_attack_rows), int(n_folds),
        tuple(attackers), tuple(_PARTS if parts is None else parts),
    )  # fmt: skip
