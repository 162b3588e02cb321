"""Labels of columns in a study: names that readers see, and code that keeps the names of the table."""

import pytest

pytest.importorskip("pandas")

from fairspan.report.labels import relabel
from fairspan.tables.dictionary import ColumnWords

WORDS = {
    "sex": ColumnWords(label="Gender", description="As in the form"),
    "score": ColumnWords(label="Points"),
}


def study():
    return {
        "columns": [{"name": "sex"}, {"name": "score"}, {"name": "sexual"}],
        "attributes": [{"name": "sex"}, {"name": "sex x age"}, {"name": "age"}],
        "target": {"name": "score"},
        "scatter": {"age": [1]},
        "tradeoff": {"parity": {"sex": 1, "age": 2}},
        "positions": [
            {
                "headline": {"gap_attribute": "sex x age", "correlation_attribute": None},
                "scores": {"sex": 1},
                "parity": [{"attribute": "sex"}],
                "verdicts": [{"attribute": "sex", "words": "The ratio by sex is kept."}],
                "snippet": "table['sex']",
                "certificate": {"words": ["Groups of sex, by score and 'score'; sex=f."]},
            }
        ],
        "importance": {"features": [{"name": "score"}, {"name": "debt"}]},
        "audit": {"lines": [{"attribute": "sex", "group": "sex"}], "summary": "sex\n  rate"},
        "about": {"notes": ["sex and sexual and 'sex'."], "command": "fairspan --protected sex"},
    }


def test_readers_see_labels_and_programs_see_names():
    found = relabel(study(), WORDS)
    assert [c["name"] for c in found["columns"]] == ["Gender", "Points", "sexual"]
    assert [c["column"] for c in found["columns"]] == ["sex", "score", "sexual"]
    assert found["columns"][0]["description"] == "As in the form"
    assert [a["name"] for a in found["attributes"]] == ["Gender", "Gender x age", "age"]
    assert found["target"]["name"] == "Points"
    assert found["tradeoff"]["parity"] == {"Gender": 1, "age": 2}
    (point,) = found["positions"]
    assert point["headline"]["gap_attribute"] == "Gender x age"
    assert (point["scores"], point["parity"]) == ({"Gender": 1}, [{"attribute": "Gender"}])
    assert point["verdicts"] == [
        {"attribute": "Gender", "words": "The ratio by Gender is kept."},
    ]
    assert point["snippet"] == "table['sex']"
    assert [f["name"] for f in found["importance"]["features"]] == ["Points", "debt"]
    assert found["audit"]["lines"] == [{"attribute": "Gender", "group": "sex"}]
    assert found["about"]["notes"] == ["Gender and sexual and 'Gender'."]
    assert found["about"]["command"] == "fairspan --protected sex"


def test_a_word_of_the_sentences_is_replaced_in_quotes_alone():
    (text,) = relabel(study(), WORDS)["positions"][0]["certificate"]["words"]
    assert text == "Groups of Gender, by score and 'Points'; Gender=f."


def test_descriptions_alone_change_no_name():
    words = {"sex": ColumnWords(description="As in the form")}
    found = relabel(study(), words)
    assert found["attributes"] == study()["attributes"]
    assert found["about"] == study()["about"]


def test_both_sides_of_the_switch_and_promises_have_labels():
    given = study()
    point = given["positions"][0] | {"selected": [{"attribute": "sex", "words": "sex"}]}
    promise = {
        "attributes": ["sex", "age"],
        "smallest": {"group": "sex=f", "n": 40},
        "left_out": ["sex=x", "age=9"],
    }
    side = {"tradeoff": given["tradeoff"], "positions": [point], "promise": promise}
    both = given | side | {"other": side | {"about": {"criterion_words": "by sex"}}}
    found = relabel(both, WORDS)
    for part in (found, found["other"]):
        assert part["tradeoff"]["parity"] == {"Gender": 1, "age": 2}
        assert part["positions"][0]["selected"] == [{"attribute": "Gender", "words": "Gender"}]
        assert part["promise"]["attributes"] == ["Gender", "age"]
        assert part["promise"]["smallest"] == {"group": "Gender=f", "n": 40}
        assert part["promise"]["left_out"] == ["Gender=x", "age=9"]
    assert found["other"]["about"]["criterion_words"] == "by Gender"


def test_names_of_features_are_replaced_in_quotes_alone():
    """A feature may be named "other" or "review", as ordinary words of a sentence are."""
    given = study() | {"columns": [{"name": "sex", "role": "feature"}]}
    given["about"] = {"notes": ["each sex, and 'sex'."]}
    assert relabel(given, WORDS)["about"]["notes"] == ["each sex, and 'Gender'."]
