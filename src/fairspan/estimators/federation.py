"""One model of several sites: pilots and moments in files, without a row leaving a site."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler

from fairspan._archives import read_archive, write_archive
from fairspan._system import first_line, inert
from fairspan.estimators.forgetting import fitted_on_rows
from fairspan.estimators.prepare import codes_target, number_of_folds
from fairspan.estimators.private_fit import refuse_private
from fairspan.estimators.state import (
    FittedAttribute,
    FittedEstimator,
    FittedState,
    snapshot,
)
from fairspan.exceptions import MomentsFileError
from fairspan.federated.agreement import AgreedColumns
from fairspan.federated.fixed_point import MOST_SITES, from_words
from fairspan.federated.moments_file import check_sizes, merge_sites, read_site, write_site
from fairspan.federated.pilot_file import agreed_pilot, decode_pilot, encode_pilot
from fairspan.inputs.config import read_config
from fairspan.inputs.rows import ColumnSchema
from fairspan.method.codes import CrossedCoder
from fairspan.method.features import LandmarkMap
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot
from fairspan.method.problem import MIN_ROWS, Data, FitConfig
from fairspan.method.site_dependence import SiteDependence, SiteSums, site_dependence

if TYPE_CHECKING:
    from fairspan.estimators.base import FairKernelEstimator

__all__ = ["PILOT_KIND", "Federation", "load_pilot"]

PILOT_KIND = "fairspan pilot file"
_FORMAT = 1
# A pilot of 10,000 landmarks in 10,000 coordinates has 800 MB.
_MOST_BYTES = 2 << 30
_SHORTEST_KEY = 16
_LARGEST = 1e100  # of parameters that are numbers: squares of larger ones overflow
_ESTIMATORS = (
    "FairRepresentation",
    "FairRidge",
    "FairRidgeClassifier",
    "FairGPRegressor",
    "FairGPClassifier",
)


class Federation(FittedEstimator):
    """Adds files of pilots and moments to an estimator."""

    if TYPE_CHECKING:

        def _step(self) -> AbstractContextManager[Self]: ...
        def _solve(self, data: Data | None = None) -> None: ...

    site_dependence_ = FittedAttribute(lambda s: _at_sites(s), after="position")

    def export_pilot(self, path: str | os.PathLike[str], *, public: bool = False) -> Path:
        """Write what all sites must agree on, after :meth:`prepare`; no moments.

        Each site reads it with :func:`fairspan.load_pilot`, adds its rows with :meth:`partial_fit` and
        calls :meth:`export_moments`.

        Parameters
        ----------
        path : path
        public : bool, default=False
            The rows given to :meth:`prepare` are public or made up. Otherwise a pilot that contains
            values of these rows (landmarks taken from them, quantiles as edges of slices) is refused.

        Returns
        -------
        Path

        Raises
        ------
        ValueError
            If the pilot contains values of rows, or cannot be used by several sites.
        """
        state = self._prepared("export_pilot")
        _check_form(state.config)
        if not public and (found := _values_of_rows(state)):
            or_linear = (
                "or X with fewer columns"
                if state.config.kernel == "linear" and isinstance(state.pilot.features, LandmarkMap)
                else "or kernel='linear'"
            )
            msg = (
                f"This pilot contains {' and '.join(found)} of the rows given to `prepare`. Give "
                f"landmarks=array of public points ({or_linear}), and slices that are agreed. If the "
                f"rows given to `prepare` are public or made up, pass public=True."
            )
            raise ValueError(msg)
        pilot, arrays = encode_pilot(state.pilot)
        classes = state.classes
        header = {
            "estimator": type(self).__name__,
            "parameters": _encode_parameters(self, state),
            "pilot": pilot,
            "classes": None if classes is None else classes.tolist(),
            "class_kind": None if classes is None else classes.dtype.kind,
            "features": _names(self),
            "n_features": int(self.n_features_in_),
            "sensitive_columns": list(self._schema.sensitive_columns),
            "columns": None if self._schema.encoder is None else self._schema.encoder.to_dict(),
            "fingerprint": decode_pilot(pilot, arrays).fingerprint,
        }
        target = Path(path)
        write_archive(target, PILOT_KIND, _FORMAT, header, arrays)
        load_pilot(target)  # what cannot be read is refused while the estimator is at hand
        return target

    def export_moments(
        self,
        path: str | os.PathLike[str],
        *,
        site: Any,
        fixed_point: bool = False,
        mask_keys: Mapping[str, bytes] | None = None,
        min_rows: Any = MIN_ROWS,
    ) -> Path:
        """Write the moments of this site's rows: sums over rows, no row and no sketch of rows.

        Parameters
        ----------
        path : path
        site : str
            Name of this site, by which the coordinator knows it.
        fixed_point : bool, default=False
            Write sums as integers. Their total is the same in any order of sites, bit for bit; the file
            is about twice as large.
        mask_keys : dict of bytes, optional
            Secret of at least 16 bytes that this site shares with each other site, by that site's name.
            Masks that cancel in the sum over all sites are added (``fixed_point`` is then True), so the
            coordinator learns only this sum. Every site must send, and a key serves for one export.
        min_rows : int, default=5
            Refuse moments with a group, or a group's complement, of fewer rows in a cell and fold: a mean
            over few rows shows them. Not used with masks.

        Returns
        -------
        Path
        """
        state = self._prepared("export_moments")
        self._need_moments("export_moments")
        moments = state.moments
        assert moments is not None
        if moments.n_rows == 0:
            msg = "export_moments needs rows: call partial_fit(..., solve=False) on this site's rows first."
            raise NotFittedError(msg)
        if not isinstance(site, str) or not site or len(site) > 200:
            msg = f"site={site!r:.80} is not allowed; give a name of at most 200 characters."
            raise ValueError(msg)
        if isinstance(min_rows, bool) or not isinstance(min_rows, int | np.integer) or min_rows < 1:
            msg = f"min_rows={min_rows!r} is not allowed; give 1 or more."
            raise ValueError(msg)
        keys = None if mask_keys is None else _checked_keys(mask_keys, site)
        _check_form(state.config)
        pilot = agreed_pilot(state.pilot)
        if keys is None:
            check_sizes(moments, pilot, int(min_rows))
        target = Path(path)
        write_site(
            target, moments, pilot, site, fixed=bool(fixed_point or keys is not None), keys=keys
        )
        return target

    @classmethod
    def from_moments(
        cls, files: Iterable[str | os.PathLike[str]], *, pilot: str | os.PathLike[str]
    ) -> Self:
        """Build the model of all sites' rows together, from their files of moments.

        ``site_dependence_`` of the result lists, for each site that sent no masks, how the score depends
        on the protected attributes there.

        Parameters
        ----------
        files : iterable of paths
            One for each site, written by :meth:`export_moments`; the order does not matter.
        pilot : path
            The pilot that the sites used.

        Returns
        -------
        fitted estimator

        Raises
        ------
        MomentsFileError
            If a file is damaged, was made with another pilot, or has sums that no rows have; the message
            names the file and the site.
        """
        est = load_pilot(pilot)
        if not isinstance(est, cls):
            msg = f"The pilot {os.fspath(pilot)!r} is for {type(est).__name__}, not for {cls.__name__}."
            raise MomentsFileError(msg)
        paths = [
            Path(file) for file in ([files] if isinstance(files, str | os.PathLike) else files)
        ]
        sites = [read_site(path, est._pilot) for path in paths]
        moments = merge_sites(sites, est._pilot)
        with est._step() as work:
            work._state = replace(work._fit_state, moments=moments, merged=True)
            work._solve()
            state = work._fit_state
            sums = []
            for site in sorted(sites, key=lambda one: one.name):
                if not site.partners:
                    own = site.moments
                    if own is None and site.words is not None:
                        own = from_words(site.words, est._pilot)
                    assert own is not None
                    sums.append(SiteSums(site=site.name, moments=_on_basis(own, state)))
            work._state = replace(state, sites=tuple(sums))
        return est

    def _prepared(self, method: str) -> FittedState:
        """The state after `prepare`."""
        if self._state is None:
            msg = f"{method} comes after prepare: there is no pilot yet."
            raise NotFittedError(msg)
        if type(self).__name__ not in _ESTIMATORS:
            msg = f"{method} is not for {type(self).__name__}; it is for {', '.join(_ESTIMATORS)}."
            raise ValueError(msg)
        self._check_unchanged()
        if not isinstance(self._schema.encoder, AgreedColumns | None):
            msg = f"{method} needs features that are numbers: the encoder of a table was fitted on its rows."
            raise ValueError(msg)
        return self._fit_state


def _check_form(config: FitConfig) -> None:
    """Raise for models that moments alone do not determine."""
    refuse_private(config, "A file of moments", "the sums of S were not kept")
    if config.likelihood == "logistic":
        what = "likelihood='logistic' (use 'gaussian')"
    elif config.equalize == "decisions":
        what = "equalize='decisions' (use 'scores')"
    elif not config.variant.exact:
        what = f"method={config.method!r}, whose sign is that of the first row"
    else:
        return
    raise ValueError(f"{what} needs rows, and no rows leave a site.")


def _values_of_rows(state: FittedState) -> list[str]:
    """Parts of a pilot that are values of the rows given to `prepare`."""
    pilot = state.pilot
    found = []
    if made_of := fitted_on_rows(pilot.features, state.config):
        found.append(made_of)
    coders = [*pilot.coders, *([] if pilot.target is None else [pilot.target])]
    if pilot.cells.strata is not None:
        coders.append(pilot.cells.strata)
    parts = [p for c in coders for p in (c.parts if isinstance(c, CrossedCoder) else (c,))]
    names = [part.name for part in parts if part.kind == "continuous" and len(part.table)]
    if names:
        found.append(f"edges of slices ({', '.join(dict.fromkeys(names))})")
    return found


def _checked_keys(keys: Mapping[Any, Any], site: str) -> dict[str, bytes]:
    for other, key in keys.items():
        long_enough = isinstance(key, bytes) and len(key) >= _SHORTEST_KEY
        if not isinstance(other, str) or other == site or not long_enough:
            msg = (
                f"mask_keys takes, for each other site by its name, at least {_SHORTEST_KEY} secret bytes; "
                f"that of {other!r:.80} is not."
            )
            raise ValueError(msg)
    if not 1 <= len(keys) < MOST_SITES:
        msg = f"mask_keys needs 1 to {MOST_SITES - 1:,} other sites; {len(keys)} given."
        raise ValueError(msg)
    return dict(keys)


def _on_basis(moments: Moments, state: FittedState) -> Moments:
    """Moments of the functions that all models of the dial are made of."""
    pending, basis = state.pilot.features.pending, state.solved.basis
    return moments.project(basis if pending is None else pending @ basis)


def _at_sites(state: FittedState) -> list[SiteDependence] | None:
    if not state.sites:
        return None
    functions = state.located.blend @ state.located.coef
    return [
        found for sums in state.sites for found in site_dependence(sums, state.pilot, functions)
    ]


# --------------------------------------------------------------------------- parameters


def _names(est: FittedEstimator) -> list[str] | None:
    names = getattr(est, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _encode_parameters(est: FittedEstimator, state: FittedState) -> dict[str, Any]:
    """Parameters as values of JSON; what was chosen on rows is given as it was chosen."""
    out: dict[str, Any] = est.get_params(deep=False)
    if isinstance(state.pilot.features, LandmarkMap):
        out |= {"landmarks": "public", "n_components": "auto"}
    if state.pilot.gamma is not None:
        out["gamma"] = state.pilot.gamma
    if isinstance(out.get("feature_map"), RBFSampler):
        out["feature_map"] = "rbf_sampler"
    for name, value in out.items():
        plain = value.item() if isinstance(value, np.generic) else value
        try:
            same = json.loads(json.dumps(plain)) == (
                list(plain) if isinstance(plain, tuple) else plain
            )
        except (TypeError, ValueError):
            same = False
        if not same:
            msg = f"{name}={value!r:.80} cannot be written to a file; give a number or a text."
            raise ValueError(msg)
        out[name] = plain
    return out


def _decode_parameters(given: Any, pilot: Pilot) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError("it has no parameters")
    out = dict(given)
    for name, value in out.items():
        if isinstance(value, int | float) and not abs(value) <= _LARGEST:
            raise ValueError(f"its parameter {inert(name)} is {inert(repr(value))}")
    features = pilot.features
    if isinstance(features, LandmarkMap):
        out["landmarks"] = features.landmarks
    elif features.transformer is not None:
        out["feature_map"] = features.transformer
    return out


# --------------------------------------------------------------------------- reading


def load_pilot(path: str | os.PathLike[str]) -> FairKernelEstimator:
    """Read a pilot: an estimator that is prepared as at all other sites, and has no rows yet.

    Parameters
    ----------
    path : path
        A file of ``export_pilot``, or of the command ``fairspan prepare``.

    Returns
    -------
    estimator
        Ready for ``partial_fit(..., solve=False)`` and ``export_moments``.

    Raises
    ------
    MomentsFileError
        If the file is damaged or is no pilot.
    """
    file = Path(path)

    def refuse(why: str) -> NoReturn:
        raise MomentsFileError(f"The pilot file {str(file)!r} is refused: {why}.")

    try:
        if file.stat().st_size > _MOST_BYTES:
            refuse(f"it is larger than {_MOST_BYTES >> 30} GiB")
    except OSError as error:
        refuse(f"it cannot be read ({error.strerror})")
    try:
        header, arrays = read_archive(file, PILOT_KIND, _FORMAT)
        return _estimator_of(header, arrays)
    except MemoryError:
        raise
    except MomentsFileError:
        raise
    except ValueError as error:
        refuse(str(error).rstrip("."))
    except Exception as error:  # what the parameters of a damaged file may bring
        refuse(f"it is damaged ({inert(first_line(error))})")


def _estimator_of(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> FairKernelEstimator:
    from fairspan import estimators  # that package imports this module

    inner = header.get("pilot")
    if not isinstance(inner, dict):
        raise ValueError("it has no pilot")
    pilot = decode_pilot(inner, arrays)
    if header.get("fingerprint") != pilot.fingerprint:
        raise ValueError("its content does not agree with its fingerprint")
    name = header.get("estimator")
    if name not in _ESTIMATORS:
        raise ValueError(f"it is for {inert(repr(name))}, which this version does not know")
    est: FairKernelEstimator = getattr(estimators, str(name))(
        **_decode_parameters(header.get("parameters"), pilot)
    )
    config = read_config(est)
    _check_form(config)
    _check_agreement(config, pilot)
    _set_columns(est, header, pilot)
    est._state = FittedState(
        config=config,
        given=snapshot(est.get_params(deep=False)),
        pilot=pilot,
        moments=pilot.empty_moments(),
        counter=pilot.counter(),
        classes=_classes(header, pilot),
    )
    return est


_CELLS = {
    "statistical_parity": "all",
    "conditional_statistical_parity": "strata",
    "equalized_odds": "target",
    "equal_opportunity": "class",
}


def _check_agreement(config: FitConfig, pilot: Pilot) -> None:
    """Raise if parameters would have made another pilot."""
    kind = None if pilot.target is None else pilot.target.kind
    agrees = (
        pilot.code_target == codes_target(config, pilot.target)
        and pilot.n_folds == number_of_folds(config, pilot.target)
        and pilot.cells.rule == _CELLS[config.criterion_name]
        and config.target_kind in (None, kind)
    )
    if not agrees:
        raise ValueError("its parameters do not agree with its target, folds or cells")


def _set_columns(est: FairKernelEstimator, header: Mapping[str, Any], pilot: Pilot) -> None:
    n, names = header.get("n_features"), header.get("features")
    extra = header.get("sensitive_columns")
    features = pilot.features
    width = features.rank
    if isinstance(features, LandmarkMap):
        width = features.landmarks.shape[1]
    elif features.transformer is not None:
        width = len(features.transformer.random_weights_)
    encoder, columns = None, header.get("columns")
    if columns is not None:
        encoder = AgreedColumns.checked(columns)
        if len(encoder.get_feature_names_out()) != width:
            raise ValueError("its columns are not those of its feature map")
        width = len(encoder.features)
    if type(n) is not int or n != width:
        raise ValueError("its number of features is not that of its feature map")
    if names is not None:
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not texts or len(names) != n:
            raise ValueError("its names of features do not fit")
        est.feature_names_in_ = np.array(names, dtype=object)
    if encoder is not None and names != list(encoder.features):
        raise ValueError("its names of features do not fit")
    if not isinstance(extra, list) or not all(isinstance(name, str) for name in extra):
        raise ValueError("its names of columns do not fit")
    text = None if encoder is None else tuple(n for n in encoder.features if n in encoder.text)
    est.n_features_in_ = n
    est._schema = ColumnSchema(sensitive_columns=tuple(extra), encoder=encoder, text_features=text)


def _classes(header: Mapping[str, Any], pilot: Pilot) -> Any:
    values: Any = header.get("classes")
    kind: Any = header.get("class_kind")
    with_classes = pilot.target is not None and not pilot.target_is_numeric
    if values is None and not with_classes:
        return None
    types: dict[Any, Any] = {"U": str, "O": str, "i": int, "u": int, "f": float, "b": bool}
    if not isinstance(values, list) or kind not in types or not with_classes:
        raise ValueError("its classes do not fit its target")
    assert pilot.target is not None
    if len(values) != pilot.target.n_levels or not all(type(v) is types[kind] for v in values):
        raise ValueError("its classes do not fit its target")
    dtype: Any = {"O": object, "U": np.str_, "i": np.int64, "u": np.uint64}.get(kind, types[kind])
    return np.array(values, dtype=dtype)
