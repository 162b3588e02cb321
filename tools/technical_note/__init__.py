"""Every number of docs/technical-note.md: ``python -m tools.technical_note [NAME ...]``.

One module for each block of the page. ``table()`` is the table that the page shows; ``claims()`` is
what the note states, as ``claim | measured | limit | pass``. The inputs are the synthetic rows of
tests/golden, scikit-learn's diabetes data and seeded draws. ``splits`` and ``ridges`` read data that
are not part of the library and run only by name.

What is stated in the note is computed here by hand, from rows and n x n kernel matrices; the library
is called where the note is about the library.
"""
