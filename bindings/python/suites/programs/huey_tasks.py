"""huey: 4 consumers of its own, each with 2 workers, and 4 processes that enqueue tasks and wait for their results."""

import os
import signal
import subprocess
import sys
import time

from crowd import Errors, answers, crowd, folder, play, tell
from huey import SqliteHuey

CONSUMERS, PRODUCERS, TASKS = 4, 4, 60
SECONDS_FOR_A_RESULT = 30

# Consumers import this file by its name.
place = os.environ.setdefault("HUEY_PLACE", "") or folder()
os.environ["HUEY_PLACE"] = place
huey = SqliteHuey("crowd", filename=f"{place}/huey.db")


@huey.task()
def double(number, turn):
    # A line of this length is appended as one.
    with open(f"{place}/executed", "a") as executed:
        executed.write(f"{number} {turn}\n")
    return 2 * turn


def produce(number):
    errors = Errors()
    right = 0
    tasks = []
    for turn in range(TASKS):
        with errors:
            tasks.append((turn, double(number, turn)))
    with errors:
        for turn, task in tasks:
            right += task.get(blocking=True, timeout=SECONDS_FOR_A_RESULT) == 2 * turn
    return {"right": right, "errors": errors.count}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    words = [sys.executable, "-m", "huey.bin.huey_consumer", "huey_tasks.huey", *"-w 2 -n -d 0.02 -m 0.1".split()]
    logs = [open(f"{place}/consumer-{number}.log", "w+") for number in range(CONSUMERS)]
    began = time.monotonic()
    consumers = [subprocess.Popen(words, cwd=here, stdout=log, stderr=subprocess.STDOUT) for log in logs]
    told = answers(crowd(PRODUCERS, "produce"))
    seconds = time.monotonic() - began
    for consumer in consumers:
        consumer.send_signal(signal.SIGINT)
    ended = [consumer.wait(timeout=60) for consumer in consumers]
    complaints = []
    for log in logs:
        log.seek(0)
        complaints += [line for line in log if "ERROR" in line or "Traceback" in line or "locked" in line]
    sys.stderr.writelines(complaints)
    with open(f"{place}/executed") as executed:
        lines = executed.read().splitlines()
    errors = sum(one["errors"] for one in told if one) + told.count(None) + len(complaints)
    tell(
        {
            "no error": errors == 0,
            "every task is executed": len(set(lines)) == PRODUCERS * TASKS,
            "no task is executed twice": len(set(lines)) == len(lines),
            "every result arrives": sum(one["right"] for one in told if one) == PRODUCERS * TASKS,
            "the consumers end": ended == [0] * CONSUMERS,
            "nothing is left": huey.pending_count() == 0 and huey.result_count() == 0,
        },
        {
            "tasks": len(lines),
            "errors": errors,
            "duplicates": len(lines) - len(set(lines)),
            "seconds": round(seconds, 1),
        },
    )


if __name__ == "__main__":
    # Tasks are known by their module, which is not to be __main__: consumers have another one.
    import huey_tasks

    play(huey_tasks.main, produce=huey_tasks.produce)
