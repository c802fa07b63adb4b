//! The workload `web`: a server of several processes (`web_server.py`), and the requests that it is sent.
//!
//! The requests come from this process, one thread for each that is open at once, each with a connection of its own, as a
//! proxy sends them: a client that is as cheap as possible beside the server's Python. What it costs is told.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::io::{FdFlags, fcntl_setfd};

use super::{
    engine::Refusal,
    job::{Job, Report},
    latency::Latency,
    tally::{Tally, report},
    usage::{Usage, cpu_s_of, rss_peak_bytes_of},
    worker::{sleep_until, wait_for_start},
};
use crate::limits::{ANSWER_WAIT_MAX, READY_WAIT_MAX};

const SERVER: &str = include_str!("web_server.py");
/// Requests before the start, for each worker of the server: all of them have answered one by then.
const WARM_UP: usize = 8;

/// Runs a `Web` task.
pub fn run(
    job: &Job,
    python: &Path,
    workers: usize,
    clients: usize,
    seconds: f64,
) -> Result<Report> {
    let server = Server::start(job, python, workers)?;
    let start = wait_for_start()?;
    let deadline = start + Duration::from_secs_f64(seconds);
    let before = (Usage::now(), server.cpu_s()?);
    let browsers = thread::scope(|scope| {
        let browsers: Vec<_> = (0..clients)
            .map(|number| {
                let tally = Tally::new(Some(deadline));
                let mut browser = Browser::new(server.address, number, tally);
                scope.spawn(move || {
                    sleep_until(start);
                    browser.browse(deadline);
                    browser
                })
            })
            .collect();
        let joined = browsers
            .into_iter()
            .map(|browser| browser.join().map_err(|_panic| anyhow!("a client panicked")));
        joined.collect::<Result<Vec<Browser>>>()
    })?;
    let mut posts = Latency::new();
    let mut created = 0;
    let mut tallies = Vec::new();
    for browser in browsers {
        posts.add(&browser.posts);
        created += browser.created;
        tallies.push(browser.tally);
    }
    let report = report(&tallies, start, &before.0)?;
    Ok(Report {
        rows: Some(created),
        insert_latency: Some(posts),
        generator_cpu_s: Some(report.cpu_s),
        cpu_s: server.cpu_s()? - before.1,
        rss_peak_bytes: server.rss_peak_bytes()?,
        // Of this process, which writes nothing; nobody counts the server's.
        syncs: None,
        wal_frames: None,
        ..report
    })
}

/// The server's processes. Dropping it ends them.
struct Server {
    master: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts it, and waits until it answers.
    fn start(job: &Job, python: &Path, workers: usize) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen")?;
        let address = listener.local_addr()?;
        // The server inherits it.
        fcntl_setfd(&listener, FdFlags::empty())?;
        let options = serde_json::json!({
            "engine": job.engine,
            "database": job.database,
            "workers": workers,
            "listening": listener.as_raw_fd(),
        });
        let master = Command::new(python)
            .args(["-c", SERVER, &options.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", python.display()))?;
        let mut server = Self { master, address };
        drop(listener);
        server.warm_up(workers).with_context(|| {
            let python = python.display();
            format!(
                "the server did not answer; {python} must find the packages gunicorn and manyhands"
            )
        })?;
        Ok(server)
    }

    fn warm_up(&mut self, workers: usize) -> Result<()> {
        let began = Instant::now();
        for _ in 0..workers * WARM_UP {
            // There is no such post: any answer will do.
            while let Err(error) = send(self.address, "GET /post/0", "") {
                ensure!(self.master.try_wait()?.is_none(), "it ended");
                ensure!(began.elapsed() < READY_WAIT_MAX, "{error:#}");
            }
        }
        Ok(())
    }

    /// Of the master and its workers, the living ones.
    fn processes(&self) -> Result<Vec<u32>> {
        let master = self.master.id();
        let path = format!("/proc/{master}/task/{master}/children");
        let children = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let workers = children.split_whitespace().map(str::parse::<u32>);
        Ok([Ok(master)].into_iter().chain(workers).collect::<Result<_, _>>()?)
    }

    /// CPU seconds so far.
    fn cpu_s(&self) -> Result<f64> {
        self.processes()?.into_iter().map(cpu_s_of).sum()
    }

    /// Of the largest process.
    fn rss_peak_bytes(&self) -> Result<u64> {
        let peaks = self.processes()?.into_iter().map(rss_peak_bytes_of);
        Ok(peaks.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its stdin ends it, and its workers.
        drop(self.master.stdin.take());
        let _ = self.master.wait();
    }
}

/// One client: it creates a post and reads it, again and again.
struct Browser {
    address: SocketAddr,
    number: usize,
    tally: Tally,
    posts: Latency,
    created: u64,
}

impl Browser {
    fn new(address: SocketAddr, number: usize, tally: Tally) -> Self {
        Self { address, number, tally, posts: Latency::new(), created: 0 }
    }

    fn browse(&mut self, deadline: Instant) {
        let mut own_post: Option<(i64, String)> = None;
        let mut round = 0_u64;
        let mut began = Instant::now();
        while began < deadline && !self.tally.is_hopeless() {
            let read = own_post.take();
            let is_post = read.is_none();
            let outcome = match read {
                Some((id, title)) => self.read(id, &title),
                None => {
                    let title = format!("The post {round} of the client {}", self.number);
                    self.create(&title).map(|id| own_post = Some((id, title)))
                }
            };
            let ended = Instant::now();
            if is_post {
                self.posts.record(ended - began);
            }
            let refused = |error: anyhow::Error| Refusal(format!("{error:#}"));
            self.tally.note(ended, ended - began, outcome.map_err(refused));
            began = ended;
            round += 1;
        }
    }

    fn create(&mut self, title: &str) -> Result<i64> {
        let id = ask(self.address, "POST /post", title)?;
        let id = id.parse().with_context(|| format!("an id and not {id:?}"))?;
        self.created += 1;
        self.tally.ids_read_back += id;
        Ok(id)
    }

    fn read(&self, id: i64, title: &str) -> Result<()> {
        let shown = ask(self.address, &format!("GET /post/{id}"), "")?;
        ensure!(shown == title, "the server showed another post");
        Ok(())
    }
}

/// The body of an answer that says that it worked.
fn ask(address: SocketAddr, what: &str, body: &str) -> Result<String> {
    let (status, body) = send(address, what, body)?;
    ensure!(["200", "201"].contains(&status.as_str()), "{body}");
    Ok(body)
}

/// One request on a connection of its own; status and body of its answer.
fn send(address: SocketAddr, what: &str, body: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
    let length = body.len();
    let head = format!("{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) =
        answer.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    let status = head.split(' ').nth(1).context("the answer has no status")?;
    Ok((status.to_owned(), body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one request with these bytes.
    fn answered(answer: &'static [u8]) -> Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it has one");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client comes");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).expect("it sends");
            stream.write_all(answer).expect("it listens");
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let outcome = ask(address, "POST /post", "a title");
        let request = server.join().expect("no panic");
        assert!(request.starts_with("POST /post HTTP/1.1\r\n"), "{request}");
        assert!(request.ends_with("Content-Length: 7\r\n\r\na title"), "{request}");
        outcome
    }

    /// What worked is a body, what did not is an error with the server's words; half an answer is no answer.
    #[test]
    fn answers_and_refusals() {
        assert_eq!(answered(b"HTTP/1.1 201 Created\r\nA: b\r\n\r\n7").expect("it worked"), "7");
        let refused = |answer| answered(answer).expect_err("it did not work").to_string();
        let busy = refused(b"HTTP/1.1 500 Internal Server Error\r\n\r\ndatabase is locked");
        assert_eq!(busy, "database is locked");
        assert_eq!(refused(b"HTTP/1.1 200 OK\r\n"), "the answer has no end of its head");
    }
}
