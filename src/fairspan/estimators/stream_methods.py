"""Fitting from and predicting to what does not fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from fairspan.encoding import collect_unseen
from fairspan.streaming.fit import StreamPlan, run_stream
from fairspan.streaming.predict import write_predictions


class StreamFit:
    """``fit_stream`` and ``predict_stream``, for every estimator."""

    def fit_stream(
        self, source, *, target=None, sensitive_features=None, control_features=None,
        features=None, sample_weight=None, encoder="auto", checkpoint=None, device=None,
        precision="auto", client=None,
    ) -> Self:  # fmt: skip
        """Fit on rows that are read in blocks: two passes, whatever their number.

        The first pass takes a sample (category lists, slice edges, landmarks, bandwidth, encoder), the
        second the moments. Any partition of the rows into blocks, files, partitions or workers ends in
        the same model. A likelihood for labels (:class:`FairGPClassifier`) reads the rows once more, or
        twice with ``curvature="likelihood"``.

        Parameters
        ----------
        source : path, pattern or list of files; pyarrow dataset; iterable; array; Dask collection
            Parquet, CSV or Feather files; data frames, ``(X, y, S)`` blocks or dicts of :meth:`fit`'s
            arguments from a list, or from a function that starts anew; a ``numpy.memmap``; a Dask data
            frame or array. An iterator can be read only once: its first rows are then the sample.
        target, sensitive_features, control_features : str or list of str
            Column names. Beside an array: arrays of as many rows, or numbers of its columns. Not with
            blocks that have no names.
        features : list of str, optional
            Columns to learn from; all that have no other role if not given.
        sample_weight : str, optional
            Column of weights, likewise.
        encoder : {"auto", "table"}, transformer or None, default="auto"
            What turns a table into numbers, fitted on the sample. "table" is
            :func:`fairspan.table_encoder`; "auto" is that if a feature is not a number, and otherwise
            none. Kept as ``encoder_``: predictions then take the table as it is. ``text_features_``
            names the features that held text; they are read as text from CSV files to predict.
        checkpoint : path, optional
            File that the pass is saved in from time to time. A fit that was killed goes on from there
            when the same call is made again, and ends in the same model, bit for bit.
        device : str, optional
            torch device, such as "cuda", on which moments are taken.
        precision : {"auto", "float64", "float32"}, default="auto"
            Of moments on a device: "auto" is float64 where the device is fast at it.
        client : distributed.Client, optional
            Workers that take the moments. A Dask collection without a client runs on Dask's scheduler in
            use (threads by default).

        Returns
        -------
        self
        """
        plan = StreamPlan(
            source, target, sensitive_features, control_features, features, sample_weight, encoder,
            checkpoint, device, precision, client,
        )  # fmt: skip
        # Rows beyond the sample may have rare values that the encoder was not fitted on.
        with self._unchanged_on_error(), collect_unseen():  # type: ignore[attr-defined]
            run_stream(self, plan)
        return self

    def predict_stream(
        self, source: Any, destination: Any, *, method="predict", features=None, keep=None,
        device=None,
    ) -> Path:  # fmt: skip
        """Predict block by block into a Parquet file.

        Parameters
        ----------
        source
            As in :meth:`fit_stream`. No protected attribute is read.
        destination : path
            Written under another name and then renamed: a killed process leaves the old file, or none.
        method : {"predict", "predict_proba", "decision_function", "transform"}, default="predict"
            What is written: a column ``prediction``; ``probability_LABEL`` for each class; ``score``
            or ``score_0``, ``score_1``, ...
        features : list of str, optional
            Columns to predict from; those of the fit if not given.
        keep : str or list of str, optional
            Columns to copy beside the predictions, such as an identifier. Those of CSV files are
            copied as text, as they are written, unless the model uses them.
        device : str, optional
            torch device to predict on.

        Returns
        -------
        Path

        Notes
        -----
        Values that the encoder has not seen are counted over all rows: one warning at the end, or an
        error and no file by the rule of :func:`fairspan.table_encoder`.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        return write_predictions(self, source, destination, method, features, keep, device)
