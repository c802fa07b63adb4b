//! Quick load: threads, seconds, durability.
use manyhands::*;
use std::sync::atomic::*;
use std::time::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let threads: usize = args.next().unwrap().parse().unwrap();
    let seconds: f64 = args.next().unwrap().parse().unwrap();
    let normal = args.next().is_some_and(|a| a == "normal");
    let dir = tempfile::tempdir_in("/work/tmp").unwrap();
    let db = Database::builder(dir.path().join("a.db"))
        .durability(if normal { Durability::Normal } else { Durability::Full })
        .open()
        .unwrap();
    db.connect()
        .unwrap()
        .execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)", params![])
        .unwrap();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let all: Vec<(u64, Duration)> = std::thread::scope(|s| {
        let hs: Vec<_> = (0..threads)
            .map(|_| {
                let db = db.clone();
                let stop = &stop;
                s.spawn(move || {
                    let mut c = db.connect().unwrap();
                    let v = Value::Blob(vec![7u8; 1024]);
                    let mut n = 0;
                    let mut worst = Duration::ZERO;
                    while !stop.load(Ordering::Relaxed) {
                        let t = Instant::now();
                        c.execute("INSERT INTO t(v) VALUES (?1)", std::slice::from_ref(&v))
                            .unwrap();
                        n += 1;
                        worst = worst.max(t.elapsed());
                    }
                    (n, worst)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        hs.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let el = start.elapsed().as_secs_f64();
    let n: u64 = all.iter().map(|x| x.0).sum();
    let rows = db.connect().unwrap().query("SELECT count(*) FROM t", params![]).unwrap()[0]
        .get::<i64>(0)
        .unwrap();
    assert_eq!(rows as u64, n);
    println!(
        "threads {threads}: {:.0}/s worst {:?} min share {:.2} {:?}",
        n as f64 / el,
        all.iter().map(|x| x.1).max().unwrap(),
        all.iter().map(|x| x.0).min().unwrap() as f64 * threads as f64 / n as f64,
        db.statistics().unwrap()
    );
}
