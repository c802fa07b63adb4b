"""Django under gunicorn, 4 processes with 2 threads: stock SQLite and manyhands, side by side.

    python flagship.py [FOLDER] [--clients 16] [--requests 40] [--method POST]

Each request reads and writes a session, reads a counter that all share and writes it plus one, and inserts a
row, in one transaction (``ATOMIC_REQUESTS``).
"""

import argparse
import json
import os
import tempfile

import load

STOCK = "django.db.backends.sqlite3"
OURS = "manyhands.django"
VARIANTS = {
    "stock": {"ENGINE": STOCK},
    "stock, IMMEDIATE": {"ENGINE": STOCK, "TRANSACTION_MODE": "IMMEDIATE"},
    "manyhands": {"ENGINE": OURS},
    "manyhands, RetryMiddleware": {"ENGINE": OURS, "RETRY": "1"},
}


def measure(folder, variant, clients, requests, method):
    """Loads one variant; what the clients saw, and what is in the database."""
    name = variant.replace(", ", "-").replace(" ", "-")
    environ = {**VARIANTS[variant], "DATABASE": os.path.join(folder, f"{name}-{method}.db")}
    body = "visitor=me" if method == "POST" else None
    with load.server(load.gunicorn("django_app"), environ, os.path.join(folder, f"{name}.log")) as port:
        load.ask(port, "/report")
        summary = load.load(port, [[(method, "/visit", body)] * requests] * clients)
        report = load.ask(port, "/report")
    return {"variant": variant, "method": method, **summary, **report}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", help="for the databases and logs; a temporary one by default")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--method", default="POST", choices=["GET", "POST"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for variant in VARIANTS:
            folder = os.path.abspath(options.folder or temporary)
            measured = measure(folder, variant, options.clients, options.requests, options.method)
            print(json.dumps(measured), flush=True)
