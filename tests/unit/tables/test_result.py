"""Signs that are recorded on a table."""

import pytest

pd = pytest.importorskip("pandas")

from fairspan.inputs.units import units_of  # noqa: E402
from fairspan.tables.result import keep_units  # noqa: E402


def table():
    return pd.DataFrame({"share": [12.0], "paid": [5], "town": ["Bonn"]})


def test_given_signs_complete_those_that_were_found():
    assert units_of(keep_units(table(), {})) == {}
    frame = keep_units(table(), {"paid": "€"}, {"share": "%", "paid": "EUR"})
    assert units_of(frame) == {"share": "%", "paid": "EUR"}
    assert units_of(keep_units(table(), {"paid": "€"}, {"paid": "none"})) == {}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"shar": "%"}, "units= names the column 'shar'"),
        ({"town": "%"}, "'town', which holds no numbers"),
        ({"paid": "$"}, r"the sign \$, and its numbers have €"),
    ],
)
def test_signs_that_cannot_be_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        keep_units(table(), {"paid": "€"}, given)
