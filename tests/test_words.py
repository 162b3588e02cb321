"""``tools.words`` finds phrases to avoid, and the tree has none outside its list of pending files."""

import pytest
from tools import words


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("# The score speaks\n# of all rows.", "1: 'speaks # of'"),
        ("One line.\nThe file is read by whoever asks.", "2: 'whoever'"),
        ("Of this the user is\ntold nothing.", "1: 'is told'"),
        ("Run make bars-core.", "1: 'bars-'"),
    ],
)
def test_planted_phrases_are_found(text, hit):
    assert [found for found in words.find(text) if found.startswith(hit)]


@pytest.mark.parametrize("text", ["A warning names the column.", "toolbars-like", "is tolderated"])
def test_plain_sentences_pass(text):
    assert list(words.find(text)) == []


def test_a_planted_sentence_in_a_page_is_reported(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("On new rows a rest is left.\n")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert words.report() == ["docs/page.md:1: 'a rest is left' (write: some dependence remains)"]


def test_the_tree_has_none():
    assert words.report() == []
