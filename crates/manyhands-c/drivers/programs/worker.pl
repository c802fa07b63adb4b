# The worker of Perl's DBD::SQLite; README.md says what a worker does.
use strict;
use warnings;
use DBI;
use JSON::PP;
use Time::HiRes qw(time);

my ($path, $seconds, $job, $writer) = @ARGV;
my $database = DBI->connect("dbi:SQLite:dbname=$path", '', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
$database->sqlite_busy_timeout(5000);
# As DBD::SQLite is set, its transactions are immediate; this one is to read before it writes.
$database->{sqlite_use_immediate_transaction} = 0;
$database->do('PRAGMA synchronous=FULL');
my $id_sum = 0;

sub expect {
    my ($holds, $what) = @_;
    die "wrong answer: $what\n" unless $holds;
}

my $prepared =
    $job eq 'prepared' ? $database->prepare('INSERT INTO event (writer, n) VALUES (?, ?)')
  : $job eq 'select'   ? $database->prepare('SELECT n FROM item WHERE id = ?')
  :                      undef;

my %jobs = (
    'insert' => sub {
        my ($n) = @_;
        $database->do("INSERT INTO event (writer, n) VALUES ($writer, $n)");
    },
    'read-then-write' => sub {
        eval {
            $database->begin_work;
            my ($count) = $database->selectrow_array('SELECT n FROM counter WHERE id = 1');
            $database->do('UPDATE counter SET n = ? WHERE id = 1', undef, $count + 1);
            $database->commit;
            1;
        } or do {
            my $error = $@;
            $database->rollback unless $database->{AutoCommit};
            die $error;
        };
    },
    'prepared' => sub {
        my ($n) = @_;
        my $changes = $prepared->execute($writer, $n);
        $id_sum += $database->sqlite_last_insert_rowid;
        expect($changes == 1, 'changes');
    },
    'select' => sub {
        my $id = $_[0] % 1000 + 1;
        $prepared->execute($id);
        my ($n) = $prepared->fetchrow_array;
        $prepared->finish;
        expect($n == $id * 7, "item $id");
    },
);

my ($version) = $database->selectrow_array('SELECT sqlite_version()');
$| = 1;
print "ready\n";
<STDIN>;
my $work = $jobs{$job};
my ($done, $errors, $wait, $n, $first_error) = (0, 0, 0, 0, '');
my $began = time;
my $now = $began;
while ($now - $began < $seconds) {
    if (eval { $work->($n); 1 }) {
        $done++;
    } else {
        $errors++;
        $first_error ||= $@ =~ s/ at \S+ line .*//sr;
    }
    $n++;
    my $before = $now;
    $now = time;
    $wait = $now - $before if $now - $before > $wait;
}
print encode_json({
    done => $done, errors => $errors, first_error => $first_error, wait_ms_max => $wait * 1000,
    seconds => $now - $began, id_sum => $id_sum, sqlite => $version,
}), "\n";
