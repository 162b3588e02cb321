"""Labels and scores of an audited model: checked, and turned to the positive class."""

import numpy as np
import pytest
import scipy.sparse

from fairspan.auditing import outputs as module
from fairspan.auditing.outputs import Outputs, codes_of, read_numbers
from fairspan.inputs.columns import as_frame


def test_labels_that_are_not_among_the_classes_are_refused():
    with pytest.raises(ValueError, match="decisions holds labels that are not among"):
        codes_of(np.array(["a", "x"]), np.array(["a", "b"]), "decisions")


def test_of_a_score_for_each_class_the_positive_ones_is_taken(rng):
    scores, classes = rng.normal(size=(9, 3)), np.array(["a", "b", "c"])
    outputs = Outputs("m", scores, classes=classes)
    for k in range(3):
        np.testing.assert_array_equal(outputs.oriented(classes, (k,)), scores[:, [k]])
    np.testing.assert_array_equal(outputs.oriented(classes, (0, 1, 2)), scores)
    one = Outputs("m", scores[:, :1], classes=classes[:2])
    np.testing.assert_array_equal(one.oriented(classes[:2], (0,)), -scores[:, :1])


def test_the_sign_and_the_name_of_a_score_are_known(rng):
    scores, classes = rng.normal(size=(9, 3)), np.array(["a", "b", "c"])
    several = Outputs("m", scores, classes=classes, method="predict_proba")
    two = Outputs("m", scores[:, :1], classes=classes[:2], method="decision_function")
    for k in range(3):
        assert not several.negated(classes, (k,))
        assert several.score_text(classes, (k,)) == f"predict_proba of m for class {classes[k]}"
    for k in range(2):
        turned = np.array_equal(two.oriented(classes[:2], (k,)), -scores[:, :1])
        assert two.negated(classes[:2], (k,)) is turned
        assert two.score_text(classes[:2], (k,)) == "decision_function of m for class b"
    number = Outputs("m", scores[:, :1], method="predict")
    assert not number.negated(None, ())
    assert number.score_text(None, ()) == "predict of m"
    assert Outputs("scores", scores[:, :1]).score_text(classes, (1,)) == "the given scores"
    decided = Outputs("decisions", decisions=classes[[0, 1]])
    assert decided.score_text(classes[:2], (1,)) == "1 for the decision b and 0 for others"
    assert decided.take([0]).score_text(None, ()) == "1 for the decision and 0 for others"
    assert two.take([0, 2]).method == "decision_function"


def test_sparse_rows_become_dense_for_attackers_if_there_is_memory(monkeypatch):
    matrix = scipy.sparse.eye_array(6, 4, format="csr")
    np.testing.assert_array_equal(read_numbers(matrix, None, []), matrix.toarray())
    monkeypatch.setattr(module, "memory_bytes", lambda: 4 * 8 * 6 * 4 - 1)
    with pytest.raises(ValueError, match=r"dense array, \(6, 4\).*'attacks' and 'kernel'"):
        read_numbers(matrix, None, [])


def test_sparse_columns_of_a_frame_become_dense():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": [0.0, 1.0, 0.0], 7: [2, 0, 0]}).astype(pd.SparseDtype(float, 0.0))
    mixed = table.assign(b=[1.0, 2.0, 3.0], sex=["f", "m", "f"])
    found = read_numbers(mixed, as_frame(mixed, "X"), ["sex"])
    np.testing.assert_array_equal(found, [[0, 2, 1], [1, 0, 2], [0, 0, 3]])
    assert isinstance(mixed["a"].dtype, pd.SparseDtype)
