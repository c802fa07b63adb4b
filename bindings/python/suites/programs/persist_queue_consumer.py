"""persist-queue: 8 processes put, one at a time or several in a transaction; one gets, by asking for ids above its
last.

Whoever polls so misses a row that becomes visible after one with a higher id.
"""

import time

import persistqueue
from crowd import Errors, answers, crowd, folder, play, tell

PROCESSES, ITEMS, TOGETHER = 8, 150, 5
SECONDS_WITHOUT_NEWS = 3


def produce(number, place):
    errors = Errors()
    one_by_one = number % 2 == 0
    with errors:
        queue = persistqueue.SQLiteQueue(place, auto_commit=one_by_one, multithreading=True)
        for turn in range(ITEMS):
            with errors:
                queue.put([number, turn])
            if not one_by_one and turn % TOGETHER == TOGETHER - 1:
                with errors:
                    queue.task_done()
        del queue
    return {"errors": errors.count}


def consume(place, producers):
    """What comes, in its order, until the producers have ended and nothing more comes."""
    # Gets move a cursor, and delete nothing before task_done().
    queue = persistqueue.SQLiteQueue(place, auto_commit=False, multithreading=True)
    found = []
    last_news = time.monotonic()
    while time.monotonic() < last_news + SECONDS_WITHOUT_NEWS or any(one.poll() is None for one in producers):
        try:
            found.append(tuple(queue.get(block=False)))
            last_news = time.monotonic()
        except persistqueue.Empty:
            time.sleep(0.001)
    return found, last_news


def main():
    place = folder()
    persistqueue.SQLiteQueue(place, auto_commit=True)
    began = time.monotonic()
    producers = crowd(PROCESSES, "produce", place)
    errors = Errors()
    found, last_news = [], began
    with errors:
        found, last_news = consume(place, producers)
    told = answers(producers)
    failed = errors.count + sum(one["errors"] for one in told if one) + told.count(None)
    in_order = all([turn for who, turn in found if who == number] == list(range(ITEMS)) for number in range(PROCESSES))
    tell(
        {
            "no error": failed == 0,
            "the consumer misses none": len(set(found)) == PROCESSES * ITEMS,
            "the consumer gets none twice": len(set(found)) == len(found),
            "a producer's items come in their order": in_order,
        },
        {
            "items": len(found),
            "errors": failed,
            "duplicates": len(found) - len(set(found)),
            "seconds": round(last_news - began, 1),
        },
    )


play(main, produce=produce)
