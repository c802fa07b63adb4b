"""What goes in comes out, as it would with the standard module."""

import math
import sqlite3
from enum import IntEnum

import pytest

import manyhands


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
    (memoryview(b"abcd")[1:3], b"bc"),
    (b"x" * 300_000, b"x" * 300_000),
]


@pytest.mark.parametrize("given, expected", VALUES, ids=[repr(given)[:20] for given, _ in VALUES])
@pytest.mark.parametrize("module", [manyhands, sqlite3], ids=["manyhands", "sqlite3"])
def test_values_make_the_round_trip(module, path, given, expected):
    connection = module.connect(path)
    try:
        connection.execute("CREATE TABLE t (v)")
        connection.execute("INSERT INTO t VALUES (?)", (given,))
        connection.commit()
        assert connection.execute("SELECT v, ? FROM t", [given]).fetchone() == (expected, expected)
    finally:
        connection.close()


@pytest.mark.parametrize("module", [manyhands, sqlite3], ids=["manyhands", "sqlite3"])
def test_a_converter_is_not_asked_of_what_is_empty(module, path):
    module.register_converter("loud", lambda text: text + b"!")
    connection = module.connect(path, detect_types=module.PARSE_COLNAMES)
    try:
        row = connection.execute("SELECT '' AS 'a [loud]', x'' AS 'b [loud]', 'c' AS 'c [loud]'").fetchone()
        assert row == (None, None, b"c!")
    finally:
        connection.close()
        module.converters.pop("LOUD")


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
        connection.execute("SELECT CAST(x'ff' AS TEXT) AS v").fetchone()


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __conform__(self, protocol):
        return f"{self.x};{self.y}" if protocol is manyhands.PrepareProtocol else None


@pytest.fixture
def point_converter():
    manyhands.register_converter("point", lambda text: tuple(map(float, text.split(b";"))))
    manyhands.register_converter("real_as_text", bytes.decode)
    yield
    del manyhands.converters["POINT"], manyhands.converters["REAL_AS_TEXT"]


def test_values_are_adapted_and_converted(path, point_converter):
    connection = manyhands.connect(path, detect_types=manyhands.PARSE_DECLTYPES | manyhands.PARSE_COLNAMES)
    connection.execute("CREATE TABLE t (p point)")
    connection.execute("INSERT INTO t VALUES (?), (NULL)", (Point(1, 2.5),))
    assert connection.execute("SELECT p FROM t").fetchall() == [((1.0, 2.5),), (None,)]
    named = connection.execute("SELECT '3;4' AS 'where [point]' UNION ALL SELECT NULL")
    assert (named.description[0][0], named.fetchall()) == ("where", [((3.0, 4.0),), (None,)])
    # As it was declared when the statement is executed, not when it was first compiled.
    connection.execute("DROP TABLE t")
    connection.execute("CREATE TABLE t (p text)")
    connection.execute("INSERT INTO t VALUES ('5;6')")
    assert connection.execute("SELECT p FROM t").fetchall() == [("5;6",)]
    connection.close()


@pytest.mark.parametrize("number", [0.1, 1.0, -0.0, 1e300, 5e-324, 123456789012345680.0, 1 / 3, math.inf])
def test_a_converter_is_given_the_text_that_sqlite_makes_of_a_number(path, point_converter, number):
    connection = manyhands.connect(path, detect_types=manyhands.PARSE_COLNAMES)
    sql = "SELECT ?1 AS 'x [real_as_text]', CAST(?1 AS TEXT)"
    converted, cast = connection.execute(sql, (number,)).fetchone()
    connection.close()
    assert converted == cast


def test_text_is_what_the_factory_makes_of_it(connection):
    for factory, expected in [(bytes, b"a"), (bytearray, bytearray(b"a")), (len, 1), (str, "a")]:
        connection.text_factory = factory
        assert connection.execute("SELECT 'a'").fetchone() == (expected,)
