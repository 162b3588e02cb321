"""Read tables as people have them: CSV in any dialect, Excel, Parquet, Feather, databases.

`read_table` reads a file, `read_sql` a query through a connection, `read_database` a query of an SQLite
or DuckDB file. All give a pandas data frame with numbers and dates where the source has them as text.
"""

from fairspan.encoding import days_since_1970
from fairspan.tables.columns import with_date_parts
from fairspan.tables.databases import read_database, read_sql
from fairspan.tables.dictionary import read_dictionary
from fairspan.tables.files import read_table

__all__ = [
    "days_since_1970",
    "read_database",
    "read_dictionary",
    "read_sql",
    "read_table",
    "with_date_parts",
]
