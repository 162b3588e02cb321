"""Fitted models as operations: from scores to predictions, probabilities and decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from fairspan.deployment.encoder import Rows, read_inputs
from fairspan.deployment.features import coordinate_weights, kernel_columns, scores
from fairspan.deployment.program import Program, Value, refuse
from fairspan.estimators import (
    FairClassifier,
    FairEraser,
    FairGPClassifier,
    FairGPRegressor,
    FairPostprocessor,
    FairPostprocessorRegressor,
    FairRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)
from fairspan.estimators.decision_fit import DecisionFit
from fairspan.estimators.gp_classifier import (
    latent_scale,
    noise_of_labels,
    spread_form,
    spread_shrinkage,
)
from fairspan.method.decision_rule import TIE, DecisionRule
from fairspan.method.features import LandmarkMap
from fairspan.method.linalg import Array

__all__ = ["write_program"]

_NUMBERS = (FairRidge, FairGPRegressor, FairRegressor, FairPostprocessorRegressor)
_CLASSES = (FairRidgeClassifier, FairGPClassifier, FairClassifier, FairPostprocessor)


def write_program(model: Any) -> Program:
    """All that a fitted model computes from a row, at its dial value."""
    if isinstance(model, FairEraser):
        refuse(
            "a FairEraser",
            "It is one matrix: compute x - fairness * removed_ @ (x - mean_)",
        )
    if not isinstance(model, (*_NUMBERS, *_CLASSES, FairRepresentation)):
        name = type(model).__name__
        more = ""
        if hasattr(model, "steps"):
            more = ". Of a pipeline, export the last step, and transform the rows before it"
        refuse(f"a {name}", f"It takes a fitted estimator of fairspan{more}")
    model._check_fitted()
    model._check_unchanged()
    if model._schema.frozen is not None:
        refuse(
            f"{type(model).__name__}, whose scores another model gives",
            "Export FairClassifier or FairRegressor, which contain their learners",
        )
    program = Program()
    rows = read_inputs(program, model)
    state = model._fit_state
    if isinstance(model, _NUMBERS):
        program.output("variable", _outputs(program, rows, model))
    elif isinstance(model, FairRepresentation):
        program.output("variable", _scores(program, rows, model))
    elif state.decisions is not None:
        _write_rule(program, rows, model)
    else:
        _write_classes(program, rows, model)
    return program


def _scores(program: Program, rows: Rows, model: Any) -> Value:
    """Scores on the model space."""
    position, features = model._position, model._pilot.features
    offset: Array = position.offset
    return scores(program, rows, features, position.directions) - offset


def _outputs(program: Program, rows: Rows, model: Any) -> Value:
    """The fitted score: the head is folded into the functions."""
    position, features = model._position, model._pilot.features
    coef, intercept = model.score_coef_, model.score_intercept_
    values = scores(program, rows, features, position.directions @ coef)
    shift: Array = intercept - position.offset @ coef
    return values + shift


def _write_classes(program: Program, rows: Rows, model: Any) -> None:
    """Label, probabilities and decision function of a model with equal scores."""
    if isinstance(model, FairGPClassifier):
        _write_process(program, rows, model)
        return
    out = _outputs(program, rows, model)
    _decide(program, out, model)
    if isinstance(model, FairRidgeClassifier):
        out = out * 2.0 - 1.0
        _decision_function(program, out.columns([1]) if out.width == 2 else out)
        return
    program.output("probabilities", program.softmax(_two_columns(out)))
    _decision_function(program, out)


def _decision_function(program: Program, values: Value) -> None:
    program.output("decision_function", values, flat=values.width == 1)


def _decide(program: Program, outputs: Value, model: Any) -> None:
    """Label of the largest output; one output is positive for the second class."""
    if outputs.width == 1:
        # Twice the number would overflow earlier than the number itself, so compare it with 0.
        outputs = outputs @ np.array([[0.0, 1.0]])
    program.label(outputs, labels_of(model))


def labels_of(model: Any) -> list[Any]:
    """Classes as values of JSON."""
    classes: list[Any] = np.asarray(model.classes_).tolist()
    for label in classes:
        if not isinstance(label, str | bool | int | float) or type(label) is not type(classes[0]):
            refuse(f"labels such as {label!r}", "Fit with labels that are text or numbers")
    return classes


def _two_columns(outputs: Value) -> Value:
    return outputs @ np.array([[-0.5, 0.5]]) if outputs.width == 1 else outputs


# ------------------------------------------------------------------ Gaussian processes


def _write_process(program: Program, rows: Rows, model: FairGPClassifier) -> None:
    state, position = model._fit_state, model._position
    functions = _scores(program, rows, model)
    out = functions @ position.coef + position.intercept
    _decide(program, out, model)
    spread = _spread(program, rows, model) if state.config.subspace == "fair" else None
    if state.config.likelihood == "gaussian":
        out = out * 2.0 - 1.0
        program.output("probabilities", _probit(program, model, functions, out, spread))
        _decision_function(program, out.columns([1]) if out.width == 2 else out)
        return
    latents, form = _two_columns(out), state.head.laplace.variance_form
    variance = None
    if spread is not None:
        variance = (spread + 1.0 / state.solved.weight) * latent_scale(state)
    elif form.any():
        variance = _quadratic(functions, form)
    if variance is not None:
        latents = latents / (variance * (np.pi / 8.0) + 1.0).sqrt()
    link = state.head.link
    if link is None:
        program.output("probabilities", program.softmax(latents))
    else:
        gaps = -latents + latents.max()
        columns = []
        for k in range(gaps.width):
            ends = np.append(link.knots[k, 1:], np.inf)
            # Pieces of the gap in every segment, times the slopes.
            widths = np.minimum(ends - link.knots[k], np.finfo(np.float64).max)
            pieces = (gaps.columns([k]) - link.knots[k]).maximum(0.0).minimum(widths)
            columns.append(pieces @ link.slopes[k][:, None])
        likely = (-program.concat(columns)).exp()
        program.output("probabilities", likely / likely.sum())
    _decision_function(program, out)


def _quadratic(functions: Value, form: Array) -> Value:
    """``(1, s)' form (1, s)`` of scores s."""
    linear = functions @ (form[1:, :1] + form[:1, 1:].T) + float(form[0, 0])
    if functions.width == 0:
        return linear
    return ((functions @ np.ascontiguousarray(form[1:, 1:])) * functions).sum() + linear


def _spread(program: Program, rows: Rows, model: FairGPClassifier) -> Value:
    """Posterior variance on all of F, in units of the noise."""
    solution, features = model._solution, model._pilot.features
    fair = solution.fair
    factor = solution.factor if fair is None else fair.factor
    assert factor is not None
    if isinstance(features, LandmarkMap):
        columns = kernel_columns(program, rows, features.kernel, features.landmarks)
    else:
        columns = scores(program, rows, features, np.eye(features.rank))
    whitened = scipy.linalg.solve_triangular(factor, coordinate_weights(features).T, lower=True).T
    mean = scipy.linalg.solve_triangular(factor, solution.mean, lower=True)
    u = columns @ np.ascontiguousarray(whitened) - mean
    lengths: Value = (u * u).sum()
    shrinkage = spread_shrinkage(solution, model._position.fairness)
    if fair is not None and fair.outside.shape[1] and shrinkage != 0.0:
        outside = u @ np.ascontiguousarray(fair.outside)
        lengths = lengths - (outside * outside).sum() * shrinkage
    return lengths / float(solution.weight)


def _probit(
    program: Program, model: FairGPClassifier, functions: Value, means: Value, spread: Value | None
) -> Value:
    """``P(f_k + noise > 0)``, normalised over the classes."""
    solution, position = model._solution, model._position
    noise, T = noise_of_labels(solution, position), float(solution.weight)
    if spread is None:
        form = np.pad(spread_form(solution, position), ((1, 0), (1, 0)))
        spread = _quadratic(functions, form)
    sure = means / ((spread + (1.0 + 1.0 / T)) * noise).sqrt()
    return program.softmax(log_normal(program, sure))


# log(erfc(z) exp(z^2)) for z >= 0 is smooth in t = 2 / (2 + z): Chebyshev polynomials up to this degree
# have it to rounding.
_DEGREE = 30


def log_normal(program: Program, x: Value) -> Value:
    """Logarithm of the normal distribution function."""
    z = x.abs() / np.sqrt(2.0)
    t = _constant(program, 2.0) / (z + 2.0)

    def smooth(nodes: Array) -> Array:
        t = np.maximum((nodes + 1.0) / 2.0, 1e-300)
        values = np.log(scipy.special.erfcx(2.0 / t - 2.0)) - np.log(t)
        return np.asarray(np.where(t < 1e-12, -0.5 * np.log(4.0 * np.pi), values))

    nodes = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
    coef = np.polynomial.chebyshev.chebfit(nodes, smooth(nodes), _DEGREE)
    twice = t * 4.0 - 2.0
    # Clenshaw's recurrence.
    before, now = x * 0.0, x * 0.0 + float(coef[-1])
    for c in coef[-2:0:-1]:
        before, now = now, twice * now - before + float(c)
    log_erfcx = twice * now * 0.5 - before + float(coef[0]) + t.log()
    tail = log_erfcx - z * z - np.log(2.0)  # of the smaller side
    return (x > 0.0).where((-tail.exp() + 1.0).log(), tail)


def _constant(program: Program, number: float) -> Value:
    return program.value(number)


# ------------------------------------------------------------------ decision rules


def _write_rule(program: Program, rows: Rows, model: Any) -> None:
    state = model._fit_state
    fit: DecisionFit = state.decisions
    rule: DecisionRule = state.rule.rule
    values = scores(program, rows, model._pilot.features, fit.functions) - fit.centre
    L = fit.contrasts.shape[1]
    of_y = values.columns(np.arange(values.width - L, values.width))
    p = program.softmax(of_y @ np.ascontiguousarray(fit.slope * fit.contrasts.T) + fit.intercepts)
    n_classes = p.width
    # As the rule counts classes: of two, the second one is selected.
    counted = p if n_classes > 2 or fit.favourable == 1 else p.columns([1, 0])
    utility = counted @ -rule.costs
    if n_classes == 2:
        utility = utility @ np.array([[-1.0], [1.0]])
    margin, size = utility, utility.abs()
    coef = np.concatenate([rule.code_coef, rule.base_coef])
    if np.any(coef):
        Q = len(rule.code_mean)
        coef = coef.reshape(len(coef), -1)
        moved = (values @ fit.matrix - rule.code_mean) @ np.ascontiguousarray(coef[:Q])
        moved = moved + coef[Q]
        if rule.cells:
            moved = moved + (counted.columns(rule.cells) / rule.cell_mean) @ np.ascontiguousarray(
                coef[Q + 1 :]
            )
        margin, size = utility - moved, size + moved.abs()
    margin = margin - float(rule.threshold)
    # Margins that are equal up to rounding are equal, as in `DecisionRule.margin`.
    if n_classes == 2:
        margin = (margin.abs() > size * TIE).where(margin, 0.0)
        if fit.favourable == 0:
            # A margin of 0 is not the favourable class, so it is the second one.
            margin = (margin.abs() > 0.0).where(-margin, float(np.finfo(np.float64).tiny))
    else:
        largest = margin.max()
        below = -margin + largest
        margin = (below > size.max() * TIE).where(margin, largest)
    _decide(program, margin, model)
    program.output("probabilities", p)
    _decision_function(program, margin)
