"""Files of moments: what one site sends, once, and the checks of those who receive it.

The file is an uncompressed npz archive: ``header.json`` (kind, format, fingerprint of the pilot, site,
encoding, digest) and arrays. It holds sums over rows: no row, no sketch of rows, no landmark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fairspan._archives import read_archive, write_archive
from fairspan._system import inert
from fairspan.exceptions import MomentsFileError
from fairspan.federated import fixed_point
from fairspan.method.consistency import inconsistency
from fairspan.method.features import LandmarkMap
from fairspan.method.linalg import Array
from fairspan.method.moments import Integers, Moments
from fairspan.method.pilot import Pilot

__all__ = ["KIND", "Site", "check_sizes", "merge_sites", "read_site", "write_site"]

FORMAT = 1
KIND = "fairspan moments file"
_ENCODINGS = ("float64", "fixed-point")
# Room for the header and the directory of the archive.
_OVERHEAD = 1 << 18
# Columns of these kernels lie between 0 and 1.
_UNIT_KERNELS = ("rbf", "laplacian")
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a site has sent: moments, or masked words that say something only in the sum over all sites."""

    name: str
    moments: Moments | None
    words: Mapping[str, fixed_point.Words] | None = None
    partners: tuple[str, ...] = ()  # names of all sites that share masks, with this one


# --------------------------------------------------------------------------- writing


def write_site(
    path: Path,
    moments: Moments,
    pilot: Pilot,
    site: str,
    *,
    fixed: bool,
    keys: Mapping[str, bytes] | None,
) -> None:
    """Write the moments of a site, under the agreed pilot."""
    header: dict[str, Any] = {
        "pilot": pilot.fingerprint,
        "site": site,
        "encoding": _ENCODINGS[fixed],
        "attributes": {coder.name: list(coder.labels) for coder in pilot.coders},
        "partners": sorted([site, *keys]) if keys else [],
    }
    sent = _without_traces(moments)
    if fixed:
        arrays: dict[str, Any] = fixed_point.to_words(sent, pilot)
        if keys:
            arrays = fixed_point.masked(arrays, site, keys, pilot.fingerprint)
    else:
        first, second = np.triu_indices(sent.n_columns)
        arrays = {name: getattr(sent, name) for name in _float_shapes(pilot) if name != "scatter"}
        arrays["scatter"] = sent.scatter[:, first, second]
        arrays["sum_log_weight"] = np.array([sent.sum_log_weight])
    if not keys:
        header["rows"] = sent.n_rows
    write_archive(path, KIND, FORMAT, header, arrays)


def _without_traces(m: Moments) -> Moments:
    """Moments without means of no rows, which would be points that rows were taken about."""
    return replace(
        m,
        mean=np.where((m.rows > 0)[:, None], m.mean, 0.0),
        level_mean=np.where((m.level_rows > 0)[..., None], m.level_mean, 0.0),
        column_mean=np.where(m.column_rows > 0, m.column_mean, 0.0),
        column_centre=np.where((m.column_rows > 0)[..., None], m.column_centre, 0.0),
        first_index=-1,
        first_row=np.zeros(m.n_columns),
        row_sketch=None,
        rounding=None,
    )


def check_sizes(moments: Moments, pilot: Pilot, least: int) -> None:
    """Raise if a sum is over so few rows that it would show them."""
    names = [(coder.name, coder.labels) for coder in pilot.coders]
    if len(moments.level_sizes) > len(names) and pilot.target is not None:
        names.append(("y", pilot.target.labels))
    bounds = np.cumsum((0, *moments.level_sizes))
    sums: list[tuple[str, Integers]] = [("a cell and fold", moments.rows)]
    for (name, labels), (a, b) in zip(names, pairwise(bounds), strict=True):
        rows = moments.level_rows[:, a:b]
        sums += [(f"{name}={label}", rows[:, k]) for k, label in enumerate(labels)]
        sums.append((f"a missing {name}", moments.rows - rows.sum(axis=1)))
    for v, coder in enumerate(pilot.numeric):
        sums.append((f"a known {coder.name}", moments.column_rows[:, v]))
        sums.append((f"a missing {coder.name}", moments.rows - moments.column_rows[:, v]))
    for what, rows in sums:
        few = rows[(rows > 0) & (rows < least)]
        if len(few):
            msg = (
                f"Only {few.min()} rows of a cell and fold have {what}, and a mean over few rows shows them "
                f"(min_rows={least}). Collect more rows, merge small groups, send masked sums, or "
                f"lower min_rows if everybody who sees the file may see these rows."
            )
            raise ValueError(msg)


# --------------------------------------------------------------------------- reading


def read_site(path: Path, pilot: Pilot) -> Site:
    """Read and check the moments of a site; raise MomentsFileError, which names the file and the site."""

    def refuse(why: str, site: str = "") -> NoReturn:
        of = f" of site {inert(repr(site))}" if site else ""
        raise MomentsFileError(f"The moments file {str(path)!r}{of} is refused: {why}.")

    try:
        size = path.stat().st_size
    except OSError as error:
        refuse(f"it cannot be read ({error.strerror})")
    most = max(_bytes(_float_shapes(pilot)), _bytes(fixed_point.shapes(pilot))) + _OVERHEAD
    if size > most:
        refuse(f"it has {size:,} bytes, and moments of this pilot have at most {most:,}")
    try:
        header, arrays = read_archive(path, KIND, FORMAT)
    except ValueError as error:
        refuse(str(error))
    site = header.get("site")
    if not isinstance(site, str) or not 0 < len(site) <= _LONGEST_NAME:
        refuse("it has no name of a site")
    if header.get("pilot") != pilot.fingerprint:
        refuse("it was made with another pilot", site)
    encoding, partners = header.get("encoding"), header.get("partners")
    if encoding not in _ENCODINGS or not _are_names(partners):
        refuse("its header is not complete", site)
    fixed = encoding == "fixed-point"
    expected = fixed_point.shapes(pilot) if fixed else _float_shapes(pilot)
    kinds = {name: np.uint64 if fixed else _float_type(name) for name in expected}
    for name in sorted({*arrays, *expected}):
        array = arrays.get(name)
        if name not in expected or array is None:
            refuse(f"it should have the arrays {', '.join(expected)}", site)
        if array.shape != expected[name] or array.dtype != kinds[name]:
            refuse(f"its array {name} has another shape or type than moments of this pilot", site)
    if partners:
        if not fixed or site not in partners:
            refuse("its masks are of other sites", site)
        return Site(name=site, moments=None, words=arrays, partners=tuple(partners))
    try:
        moments = fixed_point.from_words(arrays, pilot) if fixed else _float_moments(arrays, pilot)
    except ValueError as error:
        refuse(str(error), site)
    if (why := _problem(moments, pilot)) is not None:
        refuse(why, site)
    if header.get("rows") != moments.n_rows:
        refuse("its number of rows is not that of its header", site)
    return Site(name=site, moments=moments, words=arrays if fixed else None)


def _are_names(value: Any) -> bool:
    names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return names and len(set(value)) == len(value) <= fixed_point.MOST_SITES


def _float_shapes(pilot: Pilot) -> dict[str, tuple[int, ...]]:
    empty = pilot.empty_moments()
    out = {
        f.name: getattr(empty, f.name).shape
        for f in fields(empty)
        if isinstance(getattr(empty, f.name), np.ndarray) and f.name != "first_row"
    }
    G, D, _ = empty.scatter.shape
    return {**out, "scatter": (G, D * (D + 1) // 2), "sum_log_weight": (1,)}


def _float_type(name: str) -> type:
    return np.int64 if name.endswith("rows") else np.float64


def _bytes(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(8 * math.prod(shape) + 512 for shape in shapes.values())


def _float_moments(arrays: Mapping[str, Any], pilot: Pilot) -> Moments:
    empty = pilot.empty_moments()
    first, second = np.triu_indices(empty.n_columns)
    scatter = np.zeros(empty.scatter.shape)
    scatter[:, first, second] = scatter[:, second, first] = arrays["scatter"]
    rest = {
        name: array for name, array in arrays.items() if name not in ("scatter", "sum_log_weight")
    }
    return replace(
        empty,
        scatter=scatter,
        sum_log_weight=float(arrays["sum_log_weight"][0]),
        row_sketch=None,
        **rest,
    )


def _problem(moments: Moments, pilot: Pilot) -> str | None:
    """Why moments cannot be those of rows under this pilot."""
    if (why := inconsistency(moments)) is not None:
        return why
    if moments.n_rows == 0:
        return "it has no rows"
    if (
        pilot.code_target
        and (moments.level_rows[:, _target_levels(pilot)].sum(axis=1) != moments.rows).any()
    ):
        return "there are rows without y"
    if pilot.target_is_numeric and (moments.column_rows[:, -1] != moments.rows).any():
        return "there are rows without y"
    features = pilot.features
    if not isinstance(features, LandmarkMap) or features.whiten_first:
        return None
    if features.kernel.name in _UNIT_KERNELS and features.kernel.slope is None:
        name = features.kernel.name
        for means in (moments.mean, moments.level_mean, moments.column_centre):
            if _outside(means):
                return f"its means are outside of 0 to 1, between which the {name} kernel is"
        # x^2 <= x between 0 and 1.
        most = moments.weight[:, None] * (moments.mean * (1.0 - moments.mean) + 1e-9)
        if (np.einsum("gdd->gd", moments.scatter) > most).any():
            return f"its second moments are larger than the {name} kernel, between 0 and 1, allows"
    return None


def _target_levels(pilot: Pilot) -> slice:
    sizes = pilot.level_sizes
    return slice(sum(sizes[:-1]), sum(sizes))


def _outside(means: Array) -> bool:
    return bool(means.size and (means.min() < -1e-9 or means.max() > 1.0 + 1e-9))


# --------------------------------------------------------------------------- adding up


def merge_sites(sites: Sequence[Site], pilot: Pilot) -> Moments:
    """Add up the moments of all sites, in the order of their names; raise MomentsFileError if they clash."""
    names = [site.name for site in sites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MomentsFileError(
            f"Site {inert(repr(twice[0]))} is given twice, so its rows would count twice. Give one file per "
            f"site."
        )
    if not sites:
        raise MomentsFileError("No moments file is given.")
    if len(sites) > fixed_point.MOST_SITES:
        raise MomentsFileError(f"At most {fixed_point.MOST_SITES:,} sites can be merged at once.")
    masked = [site for site in sites if site.partners]
    for site in masked:
        missing = sorted(
            set(site.partners) - {s.name for s in masked if s.partners == site.partners}
        )
        if missing:
            raise MomentsFileError(
                f"Site {inert(repr(missing[0]))} is missing: the masks of {inert(repr(site.name))} cancel "
                f"only in the sum over all sites that share them ({inert(', '.join(site.partners))}). If it "
                f"has dropped out, the others must export again without it."
            )
    ordered = sorted(sites, key=lambda site: site.name)
    if all(site.words is not None for site in ordered):
        words: Mapping[str, fixed_point.Words] = ordered[0].words or {}
        for site in ordered[1:]:
            words = fixed_point.add(words, site.words or {})
        try:
            return _checked(fixed_point.from_words(words, pilot), pilot)
        except ValueError as error:
            raise MomentsFileError(f"The sum of all sites is refused: {error}.") from error
    if masked:
        raise MomentsFileError(
            "Masked and plain float64 moments cannot be added: let all sites export with fixed_point=True."
        )
    total = pilot.empty_moments()
    for site in ordered:
        assert site.moments is not None
        total = total + site.moments
    return replace(total, row_sketch=None)


def _checked(moments: Moments, pilot: Pilot) -> Moments:
    if (why := _problem(moments, pilot)) is not None:
        raise ValueError(why)
    return moments
