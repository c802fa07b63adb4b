"""Databases for tests: made, copied for parallel test processes, and deleted with the files beside them."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Union

from django.db.backends.sqlite3 import creation as stock

from manyhands import dbapi2 as Database


class DatabaseCreation(stock.DatabaseCreation):
    """Django's, for databases that are in WAL mode, where a file's copy is not all there is to copy."""

    def _create_test_db(self, verbosity: int, autoclobber: bool, keepdb: bool = False) -> str:
        name = super()._create_test_db(verbosity, autoclobber, keepdb)
        if not keepdb and not self.is_in_memory_db(name):
            _remove_files_beside(name)
        return name

    def _clone_test_db(self, suffix: str, verbosity: int, keepdb: bool = False) -> None:
        source = self.connection.settings_dict["NAME"]
        if self.is_in_memory_db(source):
            super()._clone_test_db(suffix, verbosity, keepdb)
            return
        target = self.get_test_db_clone_settings(suffix)["NAME"]
        if os.path.exists(target):
            if keepdb:
                return
            self._destroy_test_db(target, verbosity)
        with closing(Database.connect(source)) as original, closing(Database.connect(target)) as copy:
            original.backup(copy)

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        super()._destroy_test_db(test_database_name, verbosity)
        if test_database_name and not self.is_in_memory_db(test_database_name):
            _remove_files_beside(test_database_name)


def _remove_files_beside(database: Union[str, Path]) -> None:
    for suffix in ("-wal", "-shm", "-hands"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
