//! Users of a web site, a fixed number at once, and how long they wait for it.
//!
//! ```text
//! http-load 127.0.0.1:3000 POST /posts --users 16 --seconds 30 [--rate 100] [--patience 60]
//! ```
//!
//! Without a rate each user sends its next request as soon as it has the answer: what a site does with exactly so many requests at once.
//! A site that stands still is then asked less often, which its percentiles do not show (*coordinated omission*). So requests that wait at the end are
//! waited for, and count with their whole time; and with `--rate` requests are due at fixed times, whatever the site does. Their time begins when
//! they are due, so that a request that was sent late because its user still waited has waited, too.
//!
//! Each request has a connection of its own, as most proxies open one. The result is one line of JSON.

mod measurement;
mod request;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use measurement::Measurement;
use request::Request;

/// What the command line asks for.
struct Plan {
    request: Request,
    users: u32,
    seconds: f64,
    /// Requests that are due in a second, of all users together.
    rate: Option<f64>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments) {
        Ok(plan) => {
            println!("{}", measure(&plan).to_json());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!(
                "{error}\nusage: http-load ADDRESS:PORT METHOD PATH [--users 1] [--seconds 5] [--rate PER_SECOND] [--patience SECONDS]"
            );
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Result<Plan, String> {
    let [address, method, path, options @ ..] = arguments else {
        return Err("an address, a method and a path are needed".to_owned());
    };
    let address: SocketAddr =
        address.parse().map_err(|_| format!("{address} is no address like 127.0.0.1:3000"))?;
    let (mut users, mut seconds, mut rate, mut patience) = (1.0, 5.0, None, 60.0);
    for option in options.chunks(2) {
        let [name, value] = option else { return Err(format!("{} has no value", option[0])) };
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let number = number.ok_or_else(|| format!("{name} {value}: a number above 0 is needed"))?;
        match name.as_str() {
            "--users" => users = number,
            "--seconds" => seconds = number,
            "--rate" => rate = Some(number),
            "--patience" => patience = number,
            _ => return Err(format!("{name} is no option")),
        }
    }
    let request = Request::new(address, method, path, Duration::from_secs_f64(patience));
    Ok(Plan { request, users: users as u32, seconds, rate })
}

/// All users at once, until the last one has its last answer.
fn measure(plan: &Plan) -> Measurement {
    let start = Instant::now();
    let mut all = Measurement::default();
    thread::scope(|scope| {
        let users: Vec<_> =
            (0..plan.users).map(|number| scope.spawn(move || visit(plan, number, start))).collect();
        for user in users {
            all.add(user.join().expect("a user never panics: failures are counted"));
        }
    });
    all.seconds = start.elapsed().as_secs_f64();
    all
}

/// What one user does: requests, one after the other.
fn visit(plan: &Plan, number: u32, start: Instant) -> Measurement {
    let mut measurement = Measurement::default();
    let end = start + Duration::from_secs_f64(plan.seconds);
    for round in 0.. {
        let due = match plan.rate {
            None => Instant::now(),
            Some(rate) => start + due_after(round, number, plan.users, rate),
        };
        if due >= end {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let outcome = plan.request.send();
        measurement.count(outcome, due.elapsed());
    }
    measurement
}

/// When a user's request of a round is due, from the start: users take turns at equal distances.
fn due_after(round: u32, user: u32, users: u32, rate: f64) -> Duration {
    Duration::from_secs_f64((f64::from(round) * f64::from(users) + f64::from(user)) / rate)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A site with one waiter that answers after what `pause` says, and then closes the connection.
    fn site(pause: impl Fn(usize) -> (Duration, &'static str) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                let mut connection = connection.expect("a client has come");
                let (pause, answer) = pause(number);
                let _ = connection.read(&mut [0; 1024]);
                thread::sleep(pause);
                let _ = connection.write_all(answer.as_bytes());
            }
        });
        address
    }

    fn measured(address: SocketAddr, options: &str) -> Measurement {
        let words = format!("{address} GET / {options}");
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        measure(&parse(&words).expect("the options are right"))
    }

    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    #[test]
    fn a_request_that_waits_at_the_end_counts_with_its_whole_time() {
        let address = site(|_| (Duration::from_millis(300), ANSWER));
        let measurement = measured(address, "--seconds 0.1");
        assert_eq!(measurement.answers.get(&200), Some(&1));
        assert!(measurement.longest() >= Duration::from_millis(300));
    }

    #[test]
    fn at_a_rate_whoever_was_due_while_the_site_stood_still_has_waited() {
        let first = |number| Duration::from_millis(if number == 0 { 300 } else { 0 });
        let address = site(move |number| (first(number), ANSWER));
        let measurement = measured(address, "--seconds 0.4 --rate 50");
        assert_eq!(measurement.answers.get(&200), Some(&20), "each that was due was sent");
        let late = measurement.waits().filter(|wait| *wait >= Duration::from_millis(95)).count();
        assert!(late >= 10, "due at 0, 20, … 200 ms, answered at 300 ms or later, and only {late}");
    }

    #[test]
    fn errors_and_broken_answers_are_told_apart_and_are_no_answers() {
        let kinds = [
            ANSWER,
            "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
            "",
        ];
        let address = site(move |number| (Duration::from_millis(5), kinds[number % 4]));
        let measurement = measured(address, "--seconds 0.2");
        for status in [200, 500] {
            assert!(measurement.answers.contains_key(&status), "{:?}", measurement.answers);
        }
        assert!(
            measurement.failures.contains_key("the answer is shorter than it says"),
            "{:?}",
            measurement.failures
        );
        assert!(
            measurement.failures.contains_key("there is no answer"),
            "{:?}",
            measurement.failures
        );
    }

    #[test]
    fn bad_options_are_told() {
        for (words, error) in [
            ("localhost GET /", "localhost is no address like 127.0.0.1:3000"),
            ("127.0.0.1:1 GET / --users 0", "--users 0: a number above 0 is needed"),
            ("127.0.0.1:1 GET / --user 1", "--user is no option"),
            ("127.0.0.1:1 GET / --users", "--users has no value"),
            ("127.0.0.1:1 GET", "an address, a method and a path are needed"),
        ] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            assert_eq!(parse(&words).err().as_deref(), Some(error));
        }
    }
}
