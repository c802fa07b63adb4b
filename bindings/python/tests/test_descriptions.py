"""`Cursor.description` tells the columns of the schema that the statement was executed in. With an empty result it told
those of the schema that it had been compiled in: SQLite compiles it anew at its first step, and nobody looked."""

import itertools
from contextlib import closing

import pytest

import manyhands

STATEMENTS = [
    "SELECT * FROM t",
    "WITH all_of_t AS (SELECT * FROM t) SELECT * FROM all_of_t",
    "INSERT INTO t SELECT * FROM t RETURNING *",
    "INSERT INTO t (a) SELECT a FROM t RETURNING *",
    "UPDATE t SET a = 1 RETURNING *",
    "DELETE FROM t RETURNING *",
]


def names(connection, statement):
    return [column[0] for column in connection.execute(statement).description]


@pytest.mark.parametrize("mode", ["auto", "optimistic", "immediate"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_empty_result_has_the_names_of_today(path, statement, mode):
    options = {"isolation_level": None, "transaction_mode": mode}
    connections = [manyhands.connect(path, **options) for _ in range(2)]
    with closing(connections[0]) as connection, closing(connections[1]) as other:
        for in_transaction, by_another in itertools.product([False, True], [False, True]):
            connection.executescript("DROP TABLE IF EXISTS t; CREATE TABLE t (a)")
            assert names(connection, statement) == ["a"]
            changes = connection if in_transaction or not by_another else other
            if in_transaction:
                connection.execute("BEGIN")
            changes.execute("ALTER TABLE t ADD COLUMN c")
            assert names(connection, statement) == ["a", "c"]
            changes.execute("ALTER TABLE t RENAME COLUMN c TO d")
            assert names(connection, statement) == ["a", "d"]
            if in_transaction:
                connection.execute("COMMIT")
