"""Messages of the library in the words of the command line."""

import pytest

pytest.importorskip("typer")

from fairspan.cli.messages import collect_warnings, for_command, name_options
from fairspan.exceptions import DataWarning, NumericalError, warn_user


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sample_weight holds 1 negative value.", "--weight holds 1 negative value."),
        (
            "The column 'sample_weight' is not among sensitive_features.",
            "The column 'sample_weight' is not among --protected.",
        ),
        ("Write it (in Python, a.b(c=[d(e)]) does).", "Write it."),
        (
            "Text (--kind NAME=categorical; in Python, .astype(str)). Go.",
            "Text (--kind NAME=categorical). Go.",
        ),
        ("a (b) c (in Python, d) e", "a (b) c e"),
        ("certificate_.max_gap and max_gap", "certificate_.max_gap and --max-gap"),
        ("pass sensitive_kind={'a b': 'continuous'}.", "pass --kind 'a b=continuous'."),
    ],
)
def test_parameters_are_options(text, shown):
    assert name_options(text) == shown


def test_sentences_about_other_parameters_are_left_out():
    text = "The fold is small. Add rows. Fewer folds (`cv`) have more rows. Pass `alpha`, or a row."
    assert for_command(text) == "The fold is small. Add rows."
    assert for_command("Pass `alpha`.") == "Pass `alpha`."


def test_warnings_are_told_once_and_numerical_errors_are_errors_of_the_data():
    with collect_warnings() as texts:
        for text in ("one", "two", "one"):
            warn_user(text, DataWarning)
    assert texts == ["one", "two"]
    with pytest.raises(ValueError, match=r"^no digits left$"), collect_warnings():
        raise NumericalError("no digits left")


def test_sentences_about_parameters_without_an_option_are_left_out():
    with collect_warnings() as texts:
        warn_user("Few rows. Pass removal='training_rows' to silence this. Or `eta`.", DataWarning)
        warn_user("Few groups. Pass sensitive_kind={'a': 'categorical'}.", DataWarning)
        warn_user("Pass a larger `eta`.", DataWarning)
    kept = ["Few rows.", "Few groups. Pass --kind a=categorical.", "Pass a larger `eta`."]
    assert texts == kept
