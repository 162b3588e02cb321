"""The place that a warning names."""

import sys

import pytest


def test_a_warning_from_the_top_of_a_program_has_a_place(monkeypatch):
    """Where every caller is the library's own, the outermost is named rather than none."""
    import types

    from fairspan.exceptions import NumericalWarning, warn_user

    frame = None
    for name in ("fairspan.cli", "fairspan.a"):
        frame = types.SimpleNamespace(f_back=frame, f_globals={"__name__": name})
    monkeypatch.setattr(sys, "_getframe", lambda _: frame)
    with pytest.warns(NumericalWarning, match="mind this"):
        warn_user("mind this", NumericalWarning)
