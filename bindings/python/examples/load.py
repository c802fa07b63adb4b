"""Starts a web server on this machine, and lets clients load it over HTTP."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

HERE = os.path.dirname(os.path.abspath(__file__))


@contextmanager
def server(words, environ, log):
    """``python -m WORDS --…`` with a listening socket; the port, while it runs."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    descriptor = listening.fileno()
    words = [word.format(descriptor=descriptor) for word in words]
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=HERE,
            env={**os.environ, **environ},
            pass_fds=[descriptor],
            stdout=output,
            stderr=output,
        )
        try:
            yield listening.getsockname()[1]
        finally:
            process.terminate()
            process.wait(30)
            listening.close()


def gunicorn(application, *words):
    """Four processes with two threads each, all forked from one that has used the database."""
    return [
        "gunicorn",
        "--workers=4",
        "--threads=2",
        "--preload",
        "--bind=fd://{descriptor}",
        *words,
        application,
    ]


def uvicorn(application, *words):
    """One process."""
    return ["uvicorn", "--fd={descriptor}", "--log-level=warning", *words, application]


class Client(threading.Thread):
    """Sends one request after the other, as a browser does: one connection, with its cookies."""

    def __init__(self, port, requests):
        super().__init__()
        self.port, self.requests = port, requests
        self.seconds, self.failures = [], []

    def run(self):
        """Sends all requests; notes how long each took, and what went wrong."""
        connection, cookies = None, {}
        for method, path, body in self.requests:
            began = time.perf_counter()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
                headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
                if body is not None:
                    headers["Content-Type"] = "application/x-www-form-urlencoded"
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                answer.read()
                for cookie in answer.headers.get_all("Set-Cookie") or ():
                    name, _, value = cookie.split(";")[0].partition("=")
                    cookies[name] = value
                if answer.status >= 400:
                    self.failures.append(answer.status)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                connection.close()
                connection = None
            self.seconds.append(time.perf_counter() - began)
        if connection is not None:
            connection.close()


def load(port, clients):
    """Lets clients, each a list of (method, path, body), send their requests; a summary of it."""
    threads = [Client(port, requests) for requests in clients]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    seconds = sorted(second for thread in threads for second in thread.seconds)
    failures = [failure for thread in threads for failure in thread.failures]
    return {
        "requests": len(seconds),
        "failures": len(failures),
        "kinds": sorted({str(failure) for failure in failures}),
        "requests_per_s": round(len(seconds) / took, 1),
        "p50_ms": round(1000 * seconds[len(seconds) // 2], 1),
        "p99_ms": round(1000 * seconds[len(seconds) * 99 // 100], 1),
        "longest_ms": round(1000 * seconds[-1], 1),
    }


def ask(port, path):
    """The answer to a GET, as JSON; waits for the server to start."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request("GET", path)
                return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
