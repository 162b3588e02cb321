"""Messages of the library in the words of the command line."""

import pytest

pytest.importorskip("typer")

from fairspan.cli.messages import for_command, name_options


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
