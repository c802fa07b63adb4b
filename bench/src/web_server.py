"""The server of the workload `web`: gunicorn, with an application that creates posts and shows them.

    python web_server.py '{"engine": "stock", "database": "app.db", "workers": 4, "listening": 3}'

Written as for stock SQLite. `POST /post` looks whether the title is free and inserts, in one transaction, as a
framework's model with a unique title does; `GET /post/ID` reads. The two libraries run the same code; stock
SQLite's transaction begins with IMMEDIATE, or as frameworks begin it by default, as the engine's name says.
"""

import json
import os
import signal
import sys
import threading

from gunicorn.app.base import BaseApplication

options = json.loads(sys.argv[1])
engine = options["engine"]
is_stock = engine.startswith("stock")
BEGIN = "BEGIN IMMEDIATE" if engine.removesuffix("-normal") in ("stock", "manyhands-immediate") else "BEGIN"
# Seconds that a writer waits for its turn: the default of Python's sqlite3.
TIMEOUT_S = 5

# Before the fork, so that no worker is late for its first request.
if is_stock:
    import sqlite3
elif engine.startswith("manyhands"):
    import manyhands
else:
    sys.exit(f"the server knows no engine {engine}")


def connect():
    if is_stock:
        connection = sqlite3.connect(options["database"], timeout=TIMEOUT_S, isolation_level=None)
        if engine.endswith("-normal"):
            connection.execute("PRAGMA synchronous=NORMAL")
        return connection
    durability = "normal" if engine.endswith("-normal") else "full"
    return manyhands.connect(options["database"], timeout=TIMEOUT_S, isolation_level=None, durability=durability)


class Posts:
    """The WSGI application of one worker, with its connection."""

    connection = None

    def __call__(self, environ, start_response):
        if self.connection is None:
            self.connection = connect()
        try:
            if environ["REQUEST_METHOD"] == "POST":
                status, answer = "201 Created", self.create(environ["wsgi.input"].read().decode())
            else:
                status, answer = "200 OK", self.show(int(environ["PATH_INFO"].rsplit("/", 1)[1]))
        except Exception as error:
            status, answer = "500 Internal Server Error", str(error)
        body = answer.encode()
        start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]

    def create(self, title):
        self.connection.execute(BEGIN)
        try:
            taken = self.connection.execute("SELECT 1 FROM post WHERE title = ?", (title,)).fetchone()
            if taken:
                raise ValueError("the title is taken")
            body = "What the post is about. " * 10
            created = self.connection.execute("INSERT INTO post (title, body) VALUES (?, ?)", (title, body))
            number = created.lastrowid
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        return str(number)

    def show(self, number):
        row = self.connection.execute("SELECT title FROM post WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise LookupError("there is no such post")
        return row[0]


class Server(BaseApplication):
    """gunicorn, configured by the command."""

    def load_config(self):
        self.cfg.set("bind", "fd://%d" % options["listening"])
        self.cfg.set("workers", options["workers"])
        # As many as the harness opens at once, and room.
        self.cfg.set("backlog", 1024)
        self.cfg.set("loglevel", "warning")

    def load(self):
        return Posts()


def end_with_the_command():
    """The end of stdin means that the harness has heard enough, or is gone."""
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_command, daemon=True).start()
    Server().run()
