"""What goes in comes out, as it would with the standard module."""

import math
import sqlite3
from enum import IntEnum

import manyhands
import pytest


class Colour(IntEnum):
    RED = 3


VALUES = [
    (None, None),
    (0, 0),
    (2**63 - 1, 2**63 - 1),
    (-(2**63), -(2**63)),
    (True, 1),
    (Colour.RED, 3),
    (1.5, 1.5),
    (math.inf, math.inf),
    (math.nan, None),
    ("", ""),
    ("naïve \0 \U0001f600", "naïve \0 \U0001f600"),
    (b"", b""),
    (b"\x00\xff", b"\x00\xff"),
    (bytearray(b"ab"), b"ab"),
    (memoryview(b"abcd")[::2], b"ac"),
    (b"x" * 300_000, b"x" * 300_000),
]


@pytest.mark.parametrize("given, expected", VALUES, ids=[repr(given)[:20] for given, _ in VALUES])
@pytest.mark.parametrize("module", [manyhands, sqlite3], ids=["manyhands", "sqlite3"])
def test_values_make_the_round_trip(module, path, given, expected):
    if module is sqlite3 and isinstance(given, memoryview):
        given = bytes(given)  # sqlite3 takes contiguous ones only
    connection = module.connect(path)
    try:
        connection.execute("CREATE TABLE t (v)")
        connection.execute("INSERT INTO t VALUES (?)", (given,))
        connection.commit()
        assert connection.execute("SELECT v, ? FROM t", [given]).fetchone() == (expected, expected)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "parameters, exception",
    [
        ((2**63,), OverflowError),
        (("\ud800",), UnicodeEncodeError),
        ((object(),), manyhands.ProgrammingError),
        ((), manyhands.ProgrammingError),
        ((1, 2), manyhands.ProgrammingError),
        (7, manyhands.ProgrammingError),
        ({"name": 1}, manyhands.ProgrammingError),
    ],
)
def test_what_cannot_be_bound_is_refused(connection, parameters, exception):
    connection.execute("CREATE TABLE t (v)")
    with pytest.raises(exception):
        connection.execute("INSERT INTO t VALUES (?)", parameters)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_text_that_is_not_utf8_is_an_error_and_its_bytes_can_be_read(connection):
    with pytest.raises(manyhands.OperationalError, match="UTF-8 column 'v'"):
        connection.execute("SELECT CAST(x'ff' AS TEXT) AS v")
