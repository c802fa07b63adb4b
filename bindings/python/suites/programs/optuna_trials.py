"""Optuna: 16 processes work at one study.

A trial's number is how many trials of the study have smaller ids: two that see each other's ids out of order get the
same one.
"""

import os
import time

import optuna
from crowd import Errors, answers, crowd, folder, play, tell

PROCESSES, TRIALS = 16, 30


def objective(trial):
    x = trial.suggest_float("x", -10, 10)
    n = trial.suggest_int("n", 0, 100)
    trial.set_user_attr("process", os.getpid())
    return (x - 2) ** 2 + n


def work(number, url):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    errors = Errors()
    told = []
    sampler = optuna.samplers.RandomSampler(seed=number)
    with errors:
        study = optuna.load_study(study_name="crowd", storage=url, sampler=sampler)
        for _ in range(TRIALS):
            with errors:
                seen = lambda study, trial: told.append((trial.number, trial.value))  # noqa: E731
                study.optimize(objective, n_trials=1, callbacks=[seen])
    return {"told": told, "errors": errors.count}


def main():
    dialect = os.environ.get("SUITE_DIALECT", "sqlite")
    url = f"{dialect}:///{folder()}/study.db"
    optuna.create_study(study_name="crowd", storage=url)
    began = time.monotonic()
    found = answers(crowd(PROCESSES, "work", url))
    seconds = time.monotonic() - began
    trials = optuna.load_study(study_name="crowd", storage=url).trials
    numbers = [trial.number for trial in trials]
    complete = [trial for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    stored = {trial.number: trial.value for trial in complete}
    told = [tuple(pair) for one in found if one for pair in one["told"]]
    errors = sum(one["errors"] for one in found if one) + found.count(None)
    tell(
        {
            "no error": errors == 0,
            "all trials are complete": len(complete) == PROCESSES * TRIALS,
            "no number twice": len(set(numbers)) == len(numbers),
            "what a process was told is stored": all(stored.get(number) == value for number, value in told),
        },
        {
            "trials": len(complete),
            "errors": errors,
            "duplicates": len(numbers) - len(set(numbers)),
            "seconds": round(seconds, 1),
        },
    )


play(main, work=work)
