"""diskcache: 8 processes count, move amounts, and pass items through one cache; its shards have short timeouts."""

import time

import diskcache
from crowd import Errors, answers, crowd, folder, play, tell

PROCESSES, ROUNDS = 8, 100


def work(number, place):
    errors = Errors()
    pulled = []
    with errors, diskcache.Cache(f"{place}/cache") as cache, diskcache.FanoutCache(f"{place}/shards", 4) as shards:
        lock = diskcache.Lock(cache, "lock")
        for turn in range(ROUNDS):
            with errors:
                cache.incr("counter")
                with cache.transact():
                    cache["left"] -= 1
                    cache["right"] += 1
                cache.push([number, turn], prefix="items")
                cache.set(("of", number), "x" * (turn * 1000), expire=60)
                if len(cache.get(("of", number))) != turn * 1000:
                    raise AssertionError("a value is not what was set")
                shards.incr("counter", retry=True)
                shards.add((number, turn), turn, retry=True)
            if turn % 10 == 0:
                with errors, lock:
                    cache["locked"] = cache.get("locked", 0) + 1
            with errors:
                key, item = cache.pull(prefix="items")
                if key is not None:
                    pulled.append(item)
    return {"pulled": pulled, "errors": errors.count}


def main():
    place = folder()
    with diskcache.Cache(f"{place}/cache") as cache:
        cache["left"], cache["right"] = PROCESSES * ROUNDS, 0
    began = time.monotonic()
    found = answers(crowd(PROCESSES, "work", place))
    seconds = time.monotonic() - began
    errors = sum(one["errors"] for one in found if one) + found.count(None)
    items = [tuple(item) for one in found if one for item in one["pulled"]]
    total = PROCESSES * ROUNDS
    with diskcache.Cache(f"{place}/cache") as cache, diskcache.FanoutCache(f"{place}/shards", 4) as shards:
        while (left := cache.pull(prefix="items")) != (None, None):
            items.append(tuple(left[1]))
        tell(
            {
                "no error": errors == 0,
                "every increment counts": cache["counter"] == total,
                "every increment of a shard counts": shards["counter"] == total,
                "what left has gone, right has": (cache["left"], cache["right"]) == (0, total),
                "the lock is one's alone": cache["locked"] == PROCESSES * (ROUNDS // 10),
                "every pushed item is pulled once": len(items) == len(set(items)) == total,
                "every added key is there": len(shards) == total + 1,
                "check() finds nothing": not cache.check() and not shards.check(),
            },
            {
                "rounds": cache["counter"],
                "errors": errors,
                "duplicates": len(items) - len(set(items)),
                "seconds": round(seconds, 1),
            },
        )


play(main, work=work)
