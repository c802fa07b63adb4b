"""Dagster: 8 processes with one instance, each with 4 runs of a job."""

import os
import time

from crowd import Errors, answers, crowd, folder, play, tell
from dagster import DagsterInstance, DagsterRunStatus, job, op

PROCESSES, RUNS = 8, 4


@op
def one():
    return 1


@op
def another():
    return 2


@op
def total(context, first, second):
    context.log.info("adds")
    return first + second


@job
def sums():
    total(one(), another())


def work(number):
    errors = Errors()
    told = []
    with errors, DagsterInstance.get() as instance:
        for turn in range(RUNS):
            with errors:
                result = sums.execute_in_process(instance=instance, tags={"run": f"{number}-{turn}"})
                if result.output_for_node("total") != 3:
                    raise AssertionError("a run does not add up")
                told.append(result.run_id)
    return {"told": told, "errors": errors.count}


def main():
    place = os.environ["DAGSTER_HOME"] = folder()
    with open(os.path.join(place, "dagster.yaml"), "w") as settings:
        settings.write("telemetry:\n  enabled: false\n")
    # Dagster does not make its tables from several processes at once.
    with DagsterInstance.get() as instance:
        sums.execute_in_process(instance=instance, tags={"run": "first"})
    began = time.monotonic()
    found = answers(crowd(PROCESSES, "work"))
    seconds = time.monotonic() - began
    told = [run for answer in found if answer for run in answer["told"]]
    errors = sum(answer["errors"] for answer in found if answer) + found.count(None)
    with DagsterInstance.get() as instance:
        runs = instance.get_runs()
        events = {run.run_id: [entry.dagster_event_type for entry in instance.all_logs(run.run_id)] for run in runs}
    succeeded = [run.run_id for run in runs if run.status == DagsterRunStatus.SUCCESS]
    tags = [run.tags["run"] for run in runs]
    tell(
        {
            "no error": errors == 0,
            "all runs have succeeded": len(succeeded) == PROCESSES * RUNS + 1,
            "no run twice": len(set(tags)) == len(tags),
            "what a process was told is stored": set(told) <= set(succeeded),
            "the runs have the same events": len({tuple(sorted(map(str, one))) for one in events.values()}) == 1,
        },
        {
            "runs": len(succeeded),
            "errors": errors,
            "duplicates": len(tags) - len(set(tags)),
            "seconds": round(seconds, 1),
        },
    )


if __name__ == "__main__":
    play(main, work=work)
