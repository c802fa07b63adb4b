"""Schema changes, as Django makes them."""

from typing import Any

from django.db.backends.sqlite3 import schema as stock

from manyhands import dbapi2 as Database


class DatabaseSchemaEditor(stock.DatabaseSchemaEditor):
    """Django's editor for SQLite."""

    def quote_value(self, value: Any) -> str:
        """A default value as SQL, adapted by the adapters that the application registered here."""
        try:
            value = Database.adapt(value)
        except Database.ProgrammingError:
            pass
        return super().quote_value(value)
