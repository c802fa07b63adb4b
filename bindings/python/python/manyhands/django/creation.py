"""Databases for tests: made, copied for parallel test processes, and deleted with the files beside them.

A database in memory belongs to its process, whether the others are forked or spawned: they get a copy by way of
a file.
"""

from __future__ import annotations

import os
from contextlib import closing
from multiprocessing import get_start_method as start_method
from pathlib import Path
from typing import Any, Dict, Union

from django.db.backends.sqlite3 import creation as stock

from manyhands import dbapi2 as Database


class DatabaseCreation(stock.DatabaseCreation):
    """Django's, for databases that are in WAL mode, where a file's copy is not all there is to copy."""

    def _create_test_db(self, verbosity: int, autoclobber: bool, keepdb: bool = False) -> str:
        name = super()._create_test_db(verbosity, autoclobber, keepdb)
        if not keepdb and not self.is_in_memory_db(name):
            _remove_files_beside(name)
        return name

    def get_test_db_clone_settings(self, suffix: str) -> Dict[str, Any]:
        settings = self.connection.settings_dict
        if not self.is_in_memory_db(settings["NAME"]):
            return super().get_test_db_clone_settings(suffix)
        return {**settings, "NAME": f"{self.connection.alias}_{suffix}.sqlite3"}

    def _clone_test_db(self, suffix: str, verbosity: int, keepdb: bool = False) -> None:
        source = self.connection.settings_dict["NAME"]
        target = self.get_test_db_clone_settings(suffix)["NAME"]
        if os.path.exists(target):
            if keepdb and not self.is_in_memory_db(source):
                return
            self._destroy_test_db(target, verbosity)
        with closing(Database.connect(source, uri=True)) as original, closing(Database.connect(target)) as copy:
            original.backup(copy)

    def setup_worker_connection(self, _worker_id: int) -> None:
        connection = self.connection
        clone = self.get_test_db_clone_settings(str(_worker_id))
        if not self.is_in_memory_db(connection.settings_dict["NAME"]):
            connection.settings_dict.update(clone)
            connection.close()
            return
        # What a forked process inherited is its parent's.
        connection.connection = None
        in_memory = f"file:memorydb_{connection.alias}_{_worker_id}?mode=memory&cache=shared"
        connection.settings_dict.update({**clone, "NAME": in_memory})
        connection.connect()
        with closing(Database.connect(clone["NAME"])) as copy:
            copy.backup(connection.connection)
        if os.environ.get("RUNNING_DJANGOS_TEST_SUITE") == "true" and start_method() == "spawn":
            self.mark_expected_failures_and_skips()

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        super()._destroy_test_db(test_database_name, verbosity)
        if test_database_name and not self.is_in_memory_db(test_database_name):
            _remove_files_beside(test_database_name)


def _remove_files_beside(database: Union[str, Path]) -> None:
    for suffix in ("-wal", "-shm", "-hands"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
