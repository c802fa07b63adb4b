"""What the database can do: Django asks the version of the interpreter's SQLite, but this package's runs."""

from django.db.backends.sqlite3 import features as stock


class DatabaseFeatures(stock.DatabaseFeatures):
    """Those of SQLite 3.47 and later."""

    can_alter_table_drop_column = True
    can_return_columns_from_insert = True
    can_return_rows_from_bulk_insert = True
