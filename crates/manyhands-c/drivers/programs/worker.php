<?php
// The worker of PHP's PDO; README.md says what a worker does.
[, $path, $seconds, $job, $writer] = $argv;
$database = new PDO("sqlite:$path", null, null, [PDO::ATTR_TIMEOUT => 5]);
$database->exec('PRAGMA synchronous=FULL');
$sum_of_ids = 0;

function expect(bool $holds, string $what): void
{
    if (!$holds) {
        throw new RuntimeException("wrong answer: $what");
    }
}

$prepared = match ($job) {
    'prepared' => $database->prepare('INSERT INTO event (writer, n) VALUES (?, ?)'),
    'select' => $database->prepare('SELECT n FROM item WHERE id = ?'),
    default => null,
};

$jobs = [
    'insert' => function (int $n) use ($database, $writer) {
        $database->exec("INSERT INTO event (writer, n) VALUES ($writer, $n)");
    },
    'read-then-write' => function () use ($database) {
        try {
            $database->beginTransaction();
            $count = $database->query('SELECT n FROM counter WHERE id = 1')->fetchColumn();
            $database->exec('UPDATE counter SET n = ' . ($count + 1) . ' WHERE id = 1');
            $database->commit();
        } catch (PDOException $error) {
            if ($database->inTransaction()) {
                $database->rollBack();
            }
            throw $error;
        }
    },
    'prepared' => function (int $n) use ($database, $prepared, $writer, &$sum_of_ids) {
        $prepared->execute([$writer, $n]);
        $sum_of_ids += (int) $database->lastInsertId();
        expect($prepared->rowCount() === 1, 'changes');
    },
    'select' => function (int $n) use ($prepared) {
        $id = $n % 1000 + 1;
        $prepared->execute([$id]);
        expect($prepared->fetchColumn() === $id * 7, "item $id");
        $prepared->closeCursor();
    },
];

$version = $database->query('SELECT sqlite_version()')->fetchColumn();
echo "ready\n";
fgets(STDIN);
$work = $jobs[$job];
$done = $errors = $wait = $n = 0;
$first_error = '';
$began = $now = microtime(true);
while ($now - $began < $seconds) {
    try {
        $work($n++);
        $done++;
    } catch (Exception $error) {
        $errors++;
        $first_error = $first_error ?: $error->getMessage();
    }
    $before = $now;
    $now = microtime(true);
    $wait = max($wait, $now - $before);
}
echo json_encode([
    'done' => $done, 'errors' => $errors, 'first_error' => $first_error, 'wait_ms_max' => $wait * 1000,
    'seconds' => $now - $began, 'id_sum' => $sum_of_ids, 'sqlite' => $version,
]), "\n";
