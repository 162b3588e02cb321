"""``explore``: a table becomes a path of models, and numbers for one page that shows all of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from fairspan._system import track
from fairspan.auditing import audit
from fairspan.auditing.attack import ATTACKERS
from fairspan.auditing.results import check_settings
from fairspan.encoding import category_label, collect_unseen
from fairspan.estimators.path import read_rows, sampling_noise
from fairspan.estimators.path_selection import PathEvaluator
from fairspan.exceptions import each_warning_once
from fairspan.inputs.columns import as_frame
from fairspan.inputs.config import canonical_criterion
from fairspan.inputs.rows import read_seed
from fairspan.report import study as _study
from fairspan.report.about import about, notes
from fairspan.report.dial_points import Ground, Place, drawn_class, place_at, read_ground
from fairspan.report.favourable import Favourable, choose_favourable
from fairspan.report.fit import Told, by_stratum, choose_model, fit_model, known_rows, read_kinds
from fairspan.report.importance import shuffled_errors
from fairspan.report.met import Met
from fairspan.report.page import Report
from fairspan.report.roles import Roles, describe_columns, find_roles, give_aways, warn_of
from fairspan.report.snippet import Recipe, source_lines
from fairspan.report.table import check_share, complete_rows, held_out_rows, is_continuous
from fairspan.report.views import Scene, paired, position
from fairspan.report.words import Setting

__all__ = ["explore"]

_MIN_ROWS = 30
# Rows of scatter plots, of all continuous attributes together.
_MOST_DISPLAYED = 400


def explore(
    frame: Any,
    *,
    target: str,
    sensitive_features: Any,
    control_features: Any = None,
    features: Any = None,
    sample_weight: str | None = None,
    criterion: str = "statistical_parity",
    pos_label: Any = None,
    sensitive_kind: Any = "auto",
    model: Any = "auto",
    fairness: float = 1.0,
    n_points: int = 41,
    test_share: float = 0.25,
    level: float = 0.95,
    n_boot: int = 200,
    audit_parts: Sequence[str] | None = None,
    random_state: int = 0,
    verbose: int = 0,
    name: str = "table",
    source: str | None = None,
    command: str = "",
) -> Report:
    """Fit a fair model on a table, and find out what every place on its dial does to people.

    One fit on some of the rows; all numbers are about the rest of them.

    Parameters
    ----------
    frame : pandas DataFrame, or another that narwhals turns into one
        One row per person. Rows that miss the target, a protected attribute, a control feature or the
        weight are left out, and the report says how many.
    target : str
        Column to predict: classes or a number, by the rule for protected attributes.
    sensitive_features : str or list of str
        Columns of protected attributes.
    control_features : str or list of str, optional
        Columns within whose strata groups are compared too; with
        ``criterion="conditional_statistical_parity"`` the model is made fair within them.
    features : list of str, optional
        Columns to learn from; all others that can be encoded if not given.
    sample_weight : str, optional
        Column of weights; weight k is k copies of the row.
    criterion : str, default="statistical_parity"
        What the model is made fair by; with a ``model`` of your own it is the model's.
    pos_label : label, optional
        The favourable class. If not given, one of two classes is guessed from the words of the labels
        and the target ("approved" rather than "denied"); the report says which one, and why.
    sensitive_kind : str or dict, default="auto"
        "categorical" or "continuous", for all protected attributes or by name.
    model : "auto" or unfitted predictor of fairspan, default="auto"
        "auto" is :class:`FairGPClassifier` or :class:`FairGPRegressor`.
    fairness : float, default=1.0
        Where the slider starts, from 0 to 1: the model that is returned, and audited in full.
    n_points : int, default=41
        Places of the slider, equally spaced; ``fairness`` is one more where it is none of them.
    test_share : float, default=0.25
        Share of the rows that is held out.
    level : float, default=0.95
        Of intervals.
    n_boot : int, default=200
        Resamples of the held-out rows.
    audit_parts : sequence of str, optional
        Parts of the full audit, as in :func:`fairspan.audit`; all if not given.
    random_state : int, default=0
        The same number gives the same report.
    verbose : int, default=0
        1 shows progress.
    name : str, default="table"
        What the data are called in the report. Its Python code reads the file of this name, or the
        data set of :mod:`fairspan.datasets`.
    source : str, optional
        Python code that makes ``table``, for the report; guessed from ``name`` if not given.
    command : str, optional
        Command line that asked for this, for the report.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fairspan.report import explore
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["f", "m"], 300), "pay": rng.normal(size=300)})
    >>> people["repaid"] = np.where(people["pay"] + rng.normal(size=300) > 0, "yes", "no")
    >>> report = explore(
    ...     people, target="repaid", sensitive_features="sex", n_points=3,
    ...     audit_parts=["scores", "decisions"],
    ... )  # fmt: skip
    >>> report.study["fairness"]
    [0, 0.5, 1]
    """
    began = time.perf_counter()
    check_options(n_points, random_state, fairness, test_share)
    settings = check_settings(level, n_boot, 499, _MIN_ROWS, 10_000, 5, ATTACKERS, audit_parts)
    told = Told()
    # Rare values of a column may be among the held-out rows alone; that is nothing to warn about.
    with told.kept(), each_warning_once(), collect_unseen():
        whole = _as_pandas(frame)
        roles, refused = find_roles(
            whole, target=target, sensitive_features=sensitive_features,
            control_features=control_features, features=features, sample_weight=sample_weight,
        )  # fmt: skip
        table = complete_rows(whole, roles.needed)
        _check_rows(table, roles)
        leaks = warn_of(give_aways(table, roles))
        estimator = choose_model(
            model, table, roles, criterion=criterion, pos_label=pos_label,
            sensitive_kind=sensitive_kind, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        criterion, favourable = canonical_criterion(estimator.criterion), None
        if is_classifier(estimator):
            labels = table[roles.target].unique().tolist()
            favourable = choose_favourable(labels, roles.target, estimator.pos_label, criterion)
        if favourable is not None:
            estimator.set_params(pos_label=favourable.label)
        kinds = read_kinds(estimator.sensitive_kind, roles.sensitive)
        out = held_out_rows(
            table, [roles.target, *roles.sensitive], kinds=kinds, share=test_share,
            seed=random_state, says="test_share=",
        )  # fmt: skip
        train, held = table[~out], table[out]
        fitted = train
        if roles.weight is not None:
            held, fitted = held[held[roles.weight] > 0.0], train[train[roles.weight] > 0.0]
        start = time.perf_counter()
        fit_model(estimator, train, roles, name)
        seconds = {"fit": time.perf_counter() - start}
        given = _given(held, roles, kinds, estimator.pos_label)
        met = Met(estimator, estimator._read_new(held[list(roles.features)]))
        seed = int(read_seed(random_state).randint(2**31 - 1))
        ground = read_ground(met, settings, seed, **given)
        grid = sorted({float(f"{f:.6g}") for f in (*np.linspace(0.0, 1.0, n_points), fairness)})
        shown = track(grid, len(grid), "places of the slider", verbose=verbose)
        places = [place_at(met, ground, one) for one in shown]
        rng = np.random.default_rng([seed, 1])
        familiar = known_rows(estimator, fitted, held, roles)
        setting = Setting(
            len(fitted), ground.data.n, _noise(estimator, held[familiar], roles), places[-1].certificate,
            places[0].probable, tuple(_unmet(ground, fitted, held, roles, criterion)),
        )  # fmt: skip
        scene = Scene(
            criterion, setting, drawn_class(places[0], ground),
            _displayed(ground, rng),
        )  # fmt: skip
        strange = _strange(int(np.count_nonzero(~familiar)))
        recipe = Recipe(source or source_lines(name), roles, estimator, test_share, random_state)
        positions = _positions(places, ground, scene, recipe, rng)
        importance = shuffled_errors(met, ground, rng, verbose=verbose)
        start, at = time.perf_counter(), grid.index(float(f"{fairness:.6g}"))
        chosen = estimator if grid[at] == 1.0 else estimator.at(grid[at])
        full = audit(
            chosen, **given, level=level, n_boot=n_boot, parts=audit_parts,
            random_state=random_state, verbose=verbose,
        )  # fmt: skip
        seconds["audit"] = time.perf_counter() - start
    study = _study.fit_in(
        {
            "format": 2,
            "about": {
                **about(ground, scene, roles, estimator, places[0]),
                "data": name, "command": command, "n_rows": len(table), "seed": random_state,
                "n_weightless": len(table) - len(fitted) - len(held),
                "notes": [
                    *notes(whole, table, roles, refused, ground, scene, favourable), *strange, *leaks,
                ],
                "warnings": list(told.texts),
            },
            "task": ground.task,
            "target": _target(ground, roles, favourable),
            "columns": describe_columns(whole, roles, _numbers(ground, roles), refused),
            "attributes": _study.attributes_of(ground),
            "strata": [] if ground.data.strata is None else list(ground.data.strata.labels),
            "fairness": grid,
            "start": at,
            "tradeoff": _study.tradeoff(places, ground, scene),
            "positions": positions,
            "scatter": _study.scatter(ground, scene),
            "importance": importance,
            "audit": _study.audit_lines(full, grid[at], ground.few),
        }
    )  # fmt: skip
    seconds["all"] = time.perf_counter() - began
    told.pass_on()
    return Report(study, chosen, full, seconds)


def check_options(n_points: Any, random_state: Any, fairness: Any, test_share: Any) -> None:
    """Raise ValueError for values of the options that are out of range."""
    for name, value, least in (("n_points", n_points, 2), ("random_state", random_state, 0)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"{name}={value!r} is not allowed; give an integer from {least} up.")
    if not isinstance(fairness, int | float | np.number) or not 0.0 <= fairness <= 1.0:
        raise ValueError(f"fairness={fairness!r} is not allowed; give a number from 0 to 1.")
    check_share(test_share, "test_share=")


def _as_pandas(frame: Any) -> Any:
    """A table with rows counted from 0, and text for names."""
    read = as_frame(frame, "frame")
    if read is None:
        msg = f"explore takes a data frame with named columns; got {type(frame).__name__}."
        raise TypeError(msg)
    table = read.to_pandas().reset_index(drop=True)
    unnamed = [name for name in table.columns if not isinstance(name, str)]
    if unnamed:
        raise ValueError(f"Column names must be text, got {unnamed[0]!r}: rename it.")
    return table


def _check_rows(table: Any, roles: Roles) -> None:
    if table.empty:
        raise ValueError(f"No row has a value in all of {', '.join(map(repr, roles.needed))}.")
    if roles.weight is not None and table[roles.weight].dtype.kind not in "iufb":
        raise ValueError(f"sample_weight names {roles.weight!r}, which holds no numbers.")


def _given(held: Any, roles: Roles, kinds: dict[str, str], pos_label: Any) -> dict[str, Any]:
    """Arguments of an audit of the held-out rows."""
    columns = dict.fromkeys([*roles.features, *roles.sensitive, *roles.control])
    return {
        "X": held[list(columns)], "y": held[roles.target],
        "sensitive_features": list(roles.sensitive),
        "control_features": list(roles.control) or None,
        "sample_weight": None if roles.weight is None else held[roles.weight],
        "sensitive_kind": kinds or "auto", "pos_label": pos_label,
    }  # fmt: skip


def _noise(estimator: Any, held: Any, roles: Roles) -> float:
    """Sampling noise of a held-out correlation in the smallest cell of the criterion."""
    if held.empty:
        return float("nan")
    control = held[list(roles.control)] if by_stratum(estimator) else None
    weight = None if roles.weight is None else held[roles.weight]
    rows = read_rows(
        estimator, held[list(roles.features)], held[roles.target], held[list(roles.sensitive)],
        control, weight,
    )  # fmt: skip
    return sampling_noise(estimator, PathEvaluator(estimator, rows))


def _strange(n: int) -> list[str]:
    if not n:
        return []
    rows = f"{n:,} held-out rows are" if n > 1 else "1 held-out row is"
    return [
        f"{rows} of a class, a group or a stratum that no row fitted on has: nothing was learned about it, "
        f"and nothing is promised for it."
    ]


def _unmet(ground: Ground, fitted: Any, held: Any, roles: Roles, criterion: str) -> Iterator[str]:
    """Groups of held-out rows that no row fitted on belongs to, where the criterion compares them."""
    inside = list(roles.control) if criterion == "conditional_statistical_parity" else []
    if ground.task != "regression" and criterion in ("equalized_odds", "equal_opportunity"):
        inside = [roles.target]
    if any(is_continuous(fitted, name) for name in inside):  # strata are slices of it
        inside = []
    target = ground.data.target
    for one in ground.data.attributes:
        if one.values is not None:
            continue
        keys = list(dict.fromkeys([one.name, *inside]))
        new = ~held.set_index(keys).index.isin(fitted.set_index(keys).index)
        if criterion == "equal_opportunity" and target is not None:
            new &= target.codes == ground.data.positive[0]
        gone = ~held[one.name].isin(fitted[one.name].unique()).to_numpy()
        for row in np.flatnonzero(new | gone):
            where = " and ".join(f"{name} is {held[name].iloc[row]}" for name in keys[1:])
            group = f"{one.name}: {one.labels[one.codes[row]]}"
            yield group if gone[row] or not where else f"{group} where {where}"


def _displayed(ground: Ground, rng: np.random.Generator) -> Any:
    n_continuous = sum(one.values is not None for one in ground.data.attributes)
    return np.sort(rng.permutation(ground.data.n)[: _MOST_DISPLAYED // max(n_continuous, 1)])


def _positions(
    places: Sequence[Place], ground: Ground, scene: Scene, recipe: Recipe, rng: np.random.Generator
) -> list[dict[str, Any]]:
    settings = ground.settings
    extra = paired(
        places, ground.data.weight, settings.level, settings.n_boot, rng,
        root=ground.task == "regression",
    )  # fmt: skip
    return [
        position(place, places[0], ground, scene, more, recipe.snippet(place.fairness))
        for place, more in zip(places, extra, strict=True)
    ]


def _numbers(ground: Ground, roles: Roles) -> dict[str, bool]:
    """Whether the target and the protected attributes were read as numbers."""
    out = {one.name: one.values is not None for one in ground.data.attributes}
    return out | {roles.target: ground.task == "regression"}


def _target(ground: Ground, roles: Roles, favourable: Favourable | None) -> dict[str, Any]:
    """The target's name and classes, the favourable one, and why it is taken as favourable."""
    classes, positive = ground.data.classes, ground.data.positive
    out: dict[str, Any] = {"name": roles.target, "classes": None, "positive": None}
    if classes is not None:
        out["classes"] = [category_label(label) for label in classes.tolist()]  # type: ignore[no-untyped-call]
    if favourable is not None:
        out["positive"] = out["classes"][positive[0]]
        out |= {"named": favourable.named, "reason": favourable.reason}
    return out
