"""MLflow: 8 processes log to one tracking store, and register versions of one model."""

import os
import time

import mlflow
from crowd import Errors, answers, crowd, folder, play, tell

PROCESSES, RUNS, STEPS = 8, 4, 5


def client(place):
    return mlflow.MlflowClient(f"sqlite:///{place}/mlflow.db", f"sqlite:///{place}/mlflow.db")


def work(number, place, experiment):
    errors = Errors()
    told, versions = [], []
    with errors:
        store = client(place)
        for turn in range(RUNS):
            with errors:
                run = store.create_run(experiment, tags={"of": f"{number}-{turn}"}).info.run_id
                store.log_param(run, "number", number)
                for step in range(STEPS):
                    store.log_metric(run, "loss", 1 / (step + 1), step=step)
                store.set_tag(run, "turn", turn)
                versions.append(int(store.create_model_version("model", f"{place}/{run}", run).version))
                store.set_terminated(run)
                told.append(run)
    return {"told": told, "versions": versions, "errors": errors.count}


def main():
    place = folder()
    store = client(place)
    experiment = store.create_experiment("crowd", artifact_location=os.path.join(place, "artifacts"))
    store.create_registered_model("model")
    began = time.monotonic()
    found = answers(crowd(PROCESSES, "work", place, experiment))
    seconds = time.monotonic() - began
    told = [run for one in found if one for run in one["told"]]
    versions = [version for one in found if one for version in one["versions"]]
    errors = sum(one["errors"] for one in found if one) + found.count(None)
    runs = {run.info.run_id: run for run in store.search_runs([experiment], max_results=1000)}
    complete = [
        run
        for run in told
        if run in runs
        and runs[run].info.status == "FINISHED"
        and "number" in runs[run].data.params
        and len(store.get_metric_history(run, "loss")) == STEPS
    ]
    tell(
        {
            "no error": errors == 0,
            "all runs are complete": len(complete) == PROCESSES * RUNS,
            "no version twice": len(set(versions)) == len(versions),
        },
        {
            "runs": len(complete),
            "errors": errors,
            "duplicates": len(versions) - len(set(versions)),
            "seconds": round(seconds, 1),
        },
    )


play(main, work=work)
