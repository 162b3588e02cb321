"""``fit_stream`` and ``predict_stream``, and estimators as the streams use them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.encoding import date_columns, number_columns
from fairspan.estimators.private_fit import refuse_private
from fairspan.estimators.state import snapshot
from fairspan.inputs.columns import as_frame
from fairspan.inputs.rows import ColumnSchema, read_features
from fairspan.inputs.units import compare_units
from fairspan.method.folds import move_to
from fairspan.method.linalg import to_home
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Data
from fairspan.streaming.fit import StreamPlan, run_stream
from fairspan.streaming.predict import METHODS, write_predictions
from fairspan.streaming.rows import ARGUMENTS, PilotSample, Rows, StreamedMoments
from fairspan.streaming.sources import GivenRoles
from fairspan.unseen import collect_unseen

if TYPE_CHECKING:
    from fairspan.estimators.base import FairKernelEstimator


class StreamFit:
    """``fit_stream`` and ``predict_stream``, for every estimator."""

    # Reads the blocks anew, while `fit_stream` runs.
    _stream: Callable[[], Iterable[Data]] | None = None

    @property
    def _reads_rows_again(self) -> bool:
        """True if :meth:`_read_rows_again` needs the rows after the moments."""
        return False

    def _read_rows_again(self, blocks: Iterable[Mapping[str, Any]], device: Any) -> None:
        """Fit what moments do not suffice for."""

    def fit_stream(
        self,
        source: Any,
        *,
        target: Any = None,
        sensitive_features: Any = None,
        control_features: Any = None,
        features: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        encoder: Any = "auto",
        checkpoint: Any = None,
        device: Any = None,
        precision: Any = "auto",
        client: Any = None,
        column_types: Any = None,
        folds: Any = "auto",
    ) -> Self:
        """Fit on rows that are read in blocks, in two passes over any number of rows.

        The first pass takes a sample, which decides about category lists, slice edges, landmarks,
        bandwidth and encoder. The second pass computes the moments. Any partition of the rows into
        blocks, files, partitions or workers gives the same model. A likelihood for labels
        (:class:`FairGPClassifier`) reads the rows once more, with ``curvature="likelihood"`` up to three
        times. ``equalize="decisions"`` reads them once more, or twice beyond 200,000 rows;
        ``decision_rule_`` then says how exactly the rates of groups are known. Moments alone do not have
        the spread of code and score together. Rows of one block (4,096 to 65,536, 64 MiB) are read again
        to measure it; beyond, standard errors of the certificate are homoscedastic, and its text says so.

        Parameters
        ----------
        source : path, pattern or list of files; pyarrow dataset; iterable; array; Dask or Spark collection
            Parquet, CSV or Feather files; data frames, ``(X, y, S)`` blocks or dicts of :meth:`fit`'s
            arguments from a list, or from a function that starts anew; a ``numpy.memmap``; a Dask data
            frame or array; a Spark data frame, whose executors compute the passes. An iterator can be read
            only once: its first rows are then the sample.
        target, sensitive_features, control_features : str or list of str
            Column names. Beside an array: arrays of as many rows, or numbers of its columns. Not with
            blocks that have no names.
        features : list of str, optional
            Columns to learn from; all that have no other role if not given.
        sample_weight : str, optional
            Column of weights; beside an array also an array, or the number of a column.
        groups : str, optional
            Column of labels of rows that belong together, such as the visits of a patient; beside an
            array also an array, or the number of a column. Rows of a group share a fold, by a hash of
            the label, wherever they are in the stream. Standard errors count groups instead of rows;
            beyond 65,536 groups their number is an estimate, with a standard error of 0.4 %. An
            iterator that is longer than the sample cannot have groups.
        encoder : {"auto", "table"}, transformer or None, default="auto"
            Transformer of the table into numbers, fitted on the sample. "table" is
            :func:`fairspan.table_encoder`; "auto" is the same if a feature is not a number, and
            otherwise none. It is stored as ``encoder_``: predictions then take the table as it is.
            ``text_features_`` names the features that held text; they are read as text from CSV files
            to predict.
        checkpoint : path, optional
            File in which the pass is saved from time to time. If a fit was killed, make the same call
            again: it goes on from there and gives the same model, bit for bit on the processor.
        device : str, optional
            torch device, such as "cuda", on which the moments are computed.
        precision : {"auto", "float64", "float32"}, default="auto"
            Precision of moments on a device: "auto" is float64 if the device is fast at it.
        client : distributed.Client, optional
            Workers that compute the moments. A Dask collection without a client runs on Dask's current
            scheduler (threads by default).
        column_types : dict of str to str, optional
            Types of columns of CSV files: "number", "integer", "text", "boolean" or "date". All files are
            otherwise read once to find types that hold all values. The types of features are kept with the
            model, and new files are read with them.
        folds : {"auto", "position", "hash"}, default="auto"
            How rows are dealt into folds. "position": by their places among all rows. "hash": by their
            content (X and y), or by their group. The sample is then drawn by content too, so the order of
            rows, files and partitions does not matter, unless there are copies of rows and more than
            20,000 rows; copies of a row share a fold. "auto" is "hash" for
            groups and for Spark, whose rows have no places, and "position" otherwise.

        Returns
        -------
        self
        """
        plan = StreamPlan(
            source=source,
            given=GivenRoles(
                target=target,
                sensitive=sensitive_features,
                control=control_features,
                features=features,
                weight=sample_weight,
                groups=groups,
            ),
            encoder=encoder,
            checkpoint=checkpoint,
            device=device,
            precision=precision,
            client=client,
            column_types=column_types,
            folds=folds,
        )
        # Rows beyond the sample may have rare values that the encoder was not fitted on.
        with self._new_fit() as work, collect_unseen():  # type: ignore[attr-defined]
            refuse_private(
                work._config, "fit_stream", "streams add no noise. Call fit with all rows"
            )
            run_stream(_FitAdapter(work), plan)
        return self

    def predict_stream(
        self,
        source: Any,
        destination: Any = None,
        *,
        method: Any = "predict",
        features: Any = None,
        keep: Any = None,
        device: Any = None,
        column_types: Any = None,
        units: Any = None,
    ) -> Any:
        """Predict block by block and write the predictions to a Parquet file.

        From a Spark data frame, return a Spark data frame of the predictions instead, which executors
        compute when it is used.

        Parameters
        ----------
        source
            As in :meth:`fit_stream`. No protected attribute is read.
        destination : path
            The file is written under another name and then renamed: a killed process leaves the old
            file, or none. Not for a Spark data frame.
        method : {"predict", "predict_proba", "decision_function", "transform"}, default="predict"
            The method whose output is written: as a column ``prediction``; ``probability_LABEL`` for
            each class; ``score`` or ``score_0``, ``score_1``, ...
        features : list of str, optional
            Columns to predict from; those of the fit if not given.
        keep : str or list of str, optional
            Columns to copy beside the predictions, such as an identifier. Columns of CSV files are
            copied as they are written, as text, unless the model uses them.
        device : str, optional
            torch device to predict on.
        column_types : dict of str to str, optional
            Types of columns of CSV files, as in :meth:`fit_stream`; those of the fit if not given.
        units : dict of str to str, optional
            Signs of columns of files, such as ``{"share": "%"}``, if the model was trained on numbers
            with a sign, which :func:`fairspan.tables.read_table` takes off. Files have plain numbers.

        Returns
        -------
        Path, or Spark data frame

        Notes
        -----
        Values that the encoder has not seen are counted over all rows. They give one warning at the end,
        or an error and no file, by the rule of :func:`fairspan.table_encoder`. The first 1,000 rows of a
        Spark data frame are predicted at once, so that an error of them, or a warning, arrives here;
        those of later rows are in the logs of the executors.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        adapter = _PredictAdapter(self)  # type: ignore[arg-type]
        return write_predictions(
            adapter,
            source,
            destination,
            method,
            features=features,
            keep=keep,
            device=device,
            column_types=column_types,
            units=units,
        )


class _FitAdapter:
    """An estimator as :class:`fairspan.streaming.rows.StreamedEstimator`."""

    def __init__(self, est: FairKernelEstimator) -> None:
        self._est = est
        self.name = type(est).__name__
        params = est.get_params(deep=False)
        # An estimator without kernels fixes the parameters of kernels.
        self.params = params if "kernel" in params else {**est._fixed_parameters, **params}
        self.reads_rows_again = est._reads_rows_again
        self.chooses_rules = est._config.equalize == "decisions"
        self.n_features = 0

    def copy(self) -> _FitAdapter:
        est = copy.copy(self._est)
        est._state = None  # workers read rows with the parameters alone
        return _FitAdapter(est)

    def read_columns(self, X: Any) -> None:
        read_features(self._est, X, reset=True, config=self._est._config)

    def read(self, rows: Rows) -> Data:
        return self._read_rows(rows, reset=False)

    def _read_rows(self, rows: Rows, *, reset: bool) -> Data:
        est = self._est
        if (
            rows.given is not None
        ):  # columns that were moved to a device are in order, without names
            if as_frame(rows.given.X, "X") is not None:
                compare_units(est, rows.given.X, reset=False)
            est = copy.copy(est)
            est.__dict__.pop("feature_names_in_", None)
        *given, groups = rows.arguments
        return est._read(*given, groups=groups, reset=reset)

    def prepare(self, sample: PilotSample) -> Pilot:
        est, random_state = self._est, self._est.random_state
        if sample.encoder is not None:
            text = tuple(sample.text_features or ())
            est._schema = ColumnSchema(encoder=sample.encoder, text_features=text)
        if not isinstance(random_state, int | np.integer):
            est.random_state = sample.seed
        try:
            data = self._read_rows(sample.rows, reset=True)
            est._prepare(data, sample.fold_rule if data.clusters is None else "hash")
        finally:
            est.random_state = random_state
        if sample.clusters is not None:  # of all rows: the sample has few rows of a group
            est._set_cluster_shares(sample.clusters.shares(est._pilot.coders), data)
        if sample.role_columns is not None:
            est._schema = replace(est._schema, sensitive_columns=sample.role_columns)
        units = () if sample.from_files else est._schema.units
        est._schema = replace(est._schema, column_types=sample.column_types, units=units)
        self.n_features = int(est.n_features_in_)
        return est._pilot

    def finish(
        self,
        total: StreamedMoments,
        blocks: Iterable[Mapping[str, Any]],
        device: Any,
        *,
        one_block: bool,
    ) -> None:
        est, counter = self._est, total.pilot.counter()
        move_to(counter, total.position)
        est._state = replace(
            est._fit_state,
            given=snapshot(est.get_params(deep=False)),
            pilot=total.pilot,
            moments=total.moments,
            counter=counter,
            smallest_eigenvalue=total.smallest_eigenvalue,
            n_samples_seen=total.position,
        )
        if self.chooses_rules:
            est._stream = lambda: (self._read_again(block, device) for block in blocks)
        est._solve()
        if self.reads_rows_again:
            est._read_rows_again(blocks, device)
        if one_block:
            data = self._read_again(next(iter(blocks)), device)
            est._state = est._with_spread(est._fit_state, data)
            est._locate()

    def _read_again(self, block: Mapping[str, Any], device: Any) -> Data:
        data = self._read_rows(Rows.of(block.get(name) for name in ARGUMENTS), reset=False)
        return data if device is None else replace(data, X=to_home(data.X, device))


class _PredictAdapter:
    """A fitted estimator as :class:`fairspan.streaming.rows.StreamedPredictor`."""

    def __init__(self, est: FairKernelEstimator) -> None:
        self._est = est
        self.name, self.verbose = type(est).__name__, est.verbose
        self.methods = [name for name in METHODS if hasattr(est, name)]
        names, labels = getattr(est, "feature_names_in_", None), est._fit_state.classes
        self.feature_names = None if names is None else names.tolist()
        encoder, units = est._schema.encoder, est._schema.units
        numbers = number_columns(encoder)
        self.text_features = [n for n in est._schema.text_features or () if n not in numbers]
        self.dates = date_columns(encoder)
        self.units = None if units is None else dict(units)
        self.column_types = dict(est._schema.column_types)
        self.classes = [] if labels is None else labels.tolist()

    def read(self, X: Any) -> Any:
        return self._est._read_new(X)

    def predict(self, method: str, X: Any, device: Any) -> Any:
        est = self._est
        if device is not None:
            import torch

            numbers = read_features(est, X, reset=False, config=est._config)
            est = copy.copy(est)  # it is given numbers, so it needs no encoder and no names
            est._schema = ColumnSchema()
            est.__dict__.pop("feature_names_in_", None)
            est.n_features_in_ = numbers.shape[1]
            X = torch.as_tensor(numbers, device=device)
        return np.asarray(getattr(est, method)(X))

    def copy(self) -> _PredictAdapter:
        est = copy.copy(self._est)
        est._state = replace(est._fit_state, moments=None, counter=None, rule_rows=None)
        return _PredictAdapter(est)
