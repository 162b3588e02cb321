"""What was studied, in words, and everything that was done to the data on the way."""

from __future__ import annotations

from typing import Any

from fairspan.report.dial_points import FEWEST, Ground, Place, count_groups
from fairspan.report.favourable import Favourable
from fairspan.report.roles import Roles
from fairspan.report.views import Scene
from fairspan.report.words import criterion_words, model_words

__all__ = ["CHANGE_CLASS", "about", "notes"]

CHANGE_CLASS = "--positive CLASS (in Python, pos_label)"


def about(ground: Ground, scene: Scene, roles: Roles, model: Any, first: Place) -> dict[str, Any]:
    """What was studied."""
    from fairspan import __version__

    classes = ground.data.classes
    positive = ""
    if classes is not None and len(ground.data.positive) == 1:
        positive = str(classes[ground.data.positive[0]])
    return {
        "version": __version__,
        "n_train": scene.setting.n_train,
        "n_test": ground.data.n,
        "model": type(model).__name__,
        "model_words": model_words(model),
        "criterion": scene.criterion,
        "criterion_words": criterion_words(
            scene.criterion,
            roles.sensitive,
            roles.control,
            roles.target,
            positive,
            latent=scene.setting.latent,
        ),
        "score_words": _score_words(ground, scene, roles, first),
        "probable": first.probable,
        "level": ground.settings.level,
        "weighted": roles.weight is not None,
    }


def _score_words(ground: Ground, scene: Scene, roles: Roles, first: Place) -> str:
    """What the score is whose distribution is drawn."""
    classes = ground.data.classes
    if classes is None:
        return f"prediction of {roles.target}"
    k = ground.data.positive[0] if scene.drawn is None else scene.drawn
    return f"{'probability' if first.probable else 'score'} of {roles.target} = {classes[k]}"


def notes(
    whole: Any, table: Any, roles: Roles, refused: list[str], ground: Ground, scene: Scene,
    favourable: Favourable | None,
) -> list[str]:  # fmt: skip
    """One sentence for everything that was left out, filled in, merged, sampled or binned."""
    out = []
    if len(table) < len(whole):
        counts = whole[roles.needed].isna().sum()
        which = ", ".join(f"{name} ({int(n):,})" for name, n in counts.items() if n)
        gone = len(whole) - len(table)
        out.append(f"{gone:,} of {len(whole):,} rows were left out, because they miss {which}.")
    if refused:
        out.append(
            f"Columns left out, because they are neither numbers nor categories: {', '.join(refused)}."
        )
    gaps = [name for name in roles.features if table[name].isna().any()]
    if gaps:
        out.append(
            f"Missing values were filled in: numbers by the median of the training rows, with an indicator "
            f"that tells of it; categories by a category of their own ({', '.join(gaps[:8])}"
            f"{', ...' if len(gaps) > 8 else ''})."
        )
    out.append(
        f"The model was fitted on {scene.setting.n_train:,} rows. All numbers are about the "
        f"{ground.data.n:,} rows held out, drawn at random within groups, unless they are called in-sample."
    )
    weightless = 0 if roles.weight is None else int((table[roles.weight] == 0.0).sum())
    if weightless:
        out.append(
            f"{weightless:,} rows of weight zero count for nothing: they are neither among those fitted on "
            f"nor among those held out."
        )
    if favourable is not None:
        out.append(favourable.sentence(CHANGE_CLASS))
    out += _display_notes(ground, scene)
    out += _privacy_notes(ground)
    return out


def _privacy_notes(ground: Ground) -> list[str]:
    """What the file tells about few people."""
    names = {one.name: name for name, one in ground.shown.items()}
    few = sorted(f"{names[a]}: {label}" for a, label in ground.few if a in names)
    out = []
    if few:
        some = ", ".join(few[:6]) + (f" and {len(few) - 6} more" if len(few) > 6 else "")
        out.append(
            f"Of groups of fewer than {FEWEST} held-out rows only the number of rows is told: {some}. What "
            f"is left out may still follow from numbers about larger groups by subtraction."
        )
    single = any(one.values is not None for one in ground.data.attributes)
    out.append(
        "This file holds counts of rows by group and decision"
        + (
            ", and the attribute and the score of every single row of a scatter plot"
            if single
            else ""
        )
        + ": share it as you would share those."
    )
    return out


def _display_notes(ground: Ground, scene: Scene) -> list[str]:
    data, out = ground.data, []
    if scene.drawn is not None and data.classes is not None:
        out.append(
            f"Of the {len(data.classes)} classes, scores are drawn for {data.classes[scene.drawn]}: its "
            f"mean scores differ most between groups where fairness is 0."
        )
    out += [
        f"{one.name} is a number; its groups are {len(one.labels)} slices of it."
        for one in data.attributes
        if one.values is not None
    ]
    for name, one in ground.shown.items():
        if one.name != name:
            out.append(
                f"{name} has many groups: the {len(one.labels) - 1} largest are shown, and the others "
                f"together."
            )
    small = [
        f"{name}: {label}"
        for name, one in ground.shown.items()
        if name != ground.crossed
        for label, n in zip(one.labels, count_groups(one), strict=True)
        if n < ground.settings.min_rows
    ]
    if small:
        some = ", ".join(small[:6]) + (f" and {len(small) - 6} more" if len(small) > 6 else "")
        out.append(
            f"Groups of fewer than {ground.settings.min_rows} held-out rows are shown, but left out of gaps: "
            f"{some}."
        )
    if any(one.values is not None for one in data.attributes):
        n = len(scene.displayed)
        which = (
            f"{n:,} of the {data.n:,} held-out rows, drawn at random" if n < data.n else "all rows"
        )
        out.append(f"Scatter plots show {which}; lines and numbers rest on all of them.")
    if scene.criterion == "conditional_statistical_parity":
        out.append("Intervals of single strata are not corrected for the number of strata.")
    return out
