"""What the report says in words that no figure changes: titles, what to see in a picture, and why another engine is faster."""

from __future__ import annotations

from measurements import STOCK

TITLES = {
    "storm": "Storm: many short-lived processes",
    "storm-python": "Storm: the same with Python processes",
    "threads": "Threads: 1 KB inserts",
    "threads-alone": "One thread alone",
    "threads-normal": "Threads, at synchronous=NORMAL",
    "threads-at-a-rate": "Threads at a given rate",
    "threads-slow-disk": "Threads, where each sync takes 1 ms more",
    "clients": "Clients: thousands of async tasks in several processes",
    "web": "A web server",
    "claim": "A queue of jobs",
    "counter": "Counter: everybody updates the same four rows",
    "counter-in-transaction": "Counter, in transactions",
    "think": "Think: 100 inserts after computing or waiting",
    "transfer": "Transfer: read two balances, think, write both",
    "orm": "A web request's transaction",
    "orm-slow-disk": "A web request's transaction, where each sync takes 1 ms more",
    "shapes": "Shapes of small Python programs, in the default mode",
    "mixed": "A long job beside short writers",
    "endless-reader": "A reader that does not end",
    "sizes": "Sizes: one insert per transaction",
    "limits": "What the machine can do at best",
}

ENGINES = {
    "manyhands": "Manyhands, synchronous=FULL, strictly serializable; transactions are optimistic",
    "manyhands-normal": "Manyhands at synchronous=NORMAL: a power cut takes the last commits",
    "manyhands-immediate": "Manyhands, FULL; a transaction of several statements waits for its turn and holds it",
    "manyhands-wal-limit": "Manyhands, FULL, with wal_bytes_limit: beyond it writers wait for the reader",
    "stock": "SQLite, WAL, FULL, BEGIN IMMEDIATE, a busy timeout",
    "stock-normal": "SQLite at NORMAL: a power cut takes the last commits",
    "stock-deferred": "SQLite, FULL, BEGIN; the application runs again what SQLite refused",
    "stock-mutex": "SQLite, FULL, one mutex of the application around each write",
    "stock-mutex-normal": "SQLite at NORMAL, one mutex of the application around each write",
    "turso": "Turso's crate, MVCC, BEGIN CONCURRENT, group commit, FULL: snapshot isolation",
    "postgres": "PostgreSQL's server on a local socket, fsync on, serializable",
    "postgres-read-committed": "PostgreSQL at its default isolation",
    "postgres-pipelined": "PostgreSQL, serializable; a transaction's statements are sent without waiting for each",
}
"""What a name means."""

SEE = {
    "storm-histogram": "How far to the right a tail reaches is how long the unluckiest processes waited. "
    "Stock SQLite's gaps lie between the pauses that its busy handler makes.",
    "storm-python-histogram": "The same with interpreters, which keep the processors busy themselves: how far to the right a tail reaches is how long the "
    "unluckiest processes waited.",
    "threads-rates": "A line that rises gains from more threads; stock SQLite's falls. Dashed is NORMAL, without a sync for each commit.",
    "threads-alone-rates": "One thread and nobody beside it: the price of the queue is the difference between the two. Most of each commit is the disk's.",
    "threads-normal-rates": "The same without a sync for each commit: what is left is the processor's work.",
    "threads-at-a-rate-rates": "All writes are due at fixed times: a shorter bar could not keep up.",
    "threads-at-a-rate-waits": "A wait counts from the time at which the write was due: who cannot keep up waits longer and longer.",
    "clients-relative": "Stock SQLite at NORMAL is the dashed line: above it is more throughput in the upper row, and longer waits in the lower.",
    "web-rates": "Requests that create and read posts, answered by a server of four Python processes: the interpreter's own work bounds all engines.",
    "claim-rates": "Each job goes to one worker, exactly once; PostgreSQL skips the jobs that others are about to take.",
    "counter-rates": "Whether many writers of the same rows get in each other's way.",
    "counter-in-transaction-rates": "The same with BEGIN and COMMIT around each update.",
    "think-impact": "What the time inside a transaction costs: a line falls where the others have to wait meanwhile.",
    "transfer-rates": "Reads that must still be so at the commit; with 100 accounts they often are not.",
    "orm-rates": "Twenty reads of tables that nobody writes, one insert, one counter that all share.",
    "mixed-rates": "The short writers alone, and beside a transaction of seconds: stock SQLite's wait until it ends.",
    "mixed-waits": "How far the short writers' marks move to the right when the long job runs.",
    "endless-reader-wal": "The file grows while the reader keeps its snapshot, or stops at the limit. Afterwards it is used again from its beginning, "
    "and keeps its length.",
    "sizes-rates": "One thread: small values cost a sync, large ones the copying, and the two engines the same.",
    "shapes-rates": "What processes of one program do again and again, written for the standard module. "
    "A bar that is shorter than stock SQLite's is one to mend.",
    "limits-rates": "No engine here can be faster than these, which are the machine's.",
    "limits-waits": "How long one of them takes; a sync's tail is the disk's.",
}
"""What to see in a picture, in a sentence or two."""

SEE_ELSE = {
    "rates": "Bars are medians, the thin lines reach from the least to the most repetition; longer is better.",
    "waits": "Each row is an engine, from its median wait to the longest; further left is better, and a short row means that all wait alike.",
}
"""The same of all other pictures of a kind."""

NORMAL = "at NORMAL stock SQLite syncs only at checkpoints, Manyhands at FULL for each batch"
"""The same of each workload that has no words of its own."""

REASONS = {
    ("threads", STOCK): "one thread alone gains nothing from a queue, and each write pays for a look at it",
    ("threads-alone", STOCK): "one thread alone gains nothing from a queue, and each write pays for a look at it",
    ("threads-normal", "stock-normal"): "one thread alone gains nothing from a queue, and each write pays for a look at it",
    ("threads-normal", "stock-mutex-normal"): "without a sync there is little to share, and each write pays for the queue",
    ("think", STOCK): "a transaction whose statements others have overtaken executes them once more at its commit",
    ("transfer", "turso"): "snapshot isolation does not ask whether what was read is still so; Manyhands executes the reads again",
    ("counter", "stock-mutex"): "one writer alone gains nothing from a queue, and each write pays for a look at it",
    ("clients", "stock-normal"): "stock SQLite at NORMAL syncs only at checkpoints, Manyhands at FULL for each batch",
    ("threads", "stock-mutex-normal"): "stock SQLite at NORMAL syncs only at checkpoints: with few threads a batch has too few writes to share a sync",
    ("counter", STOCK): "one writer alone gains nothing from a queue, and each write pays for a look at it",
    ("sizes", STOCK): "one writer alone gains nothing from a queue; a value that is too long for a slot waits for its turn",
    ("claim", "postgres-read-committed"): "PostgreSQL's workers skip what others have locked, and run side by side",
    ("web", STOCK): "a lightly loaded server has nobody to share a sync with",
    ("counter-in-transaction", STOCK): "one writer alone gains nothing from a queue, and a fork costs more than BEGIN IMMEDIATE",
    ("counter-in-transaction", "stock-mutex"): "one writer alone gains nothing from a queue, and a fork costs more than BEGIN IMMEDIATE",
    ("threads", "stock-mutex"): "one thread alone gains nothing from a queue, and each write pays for a look at it",
    ("threads", "stock-normal"): "stock SQLite at NORMAL syncs only at checkpoints: with few threads a batch has too few writes to share a sync",
    ("sizes", "stock-normal"): "stock SQLite at NORMAL syncs only at checkpoints, Manyhands at FULL for each insert",
    ("think", "turso"): "snapshot isolation does not ask whether what was read is still so; Manyhands executes the log once more",
    ("orm", "turso"): "its reads see a snapshot and are not looked at again",
}
"""Why another engine commits more often, where it does."""
