//! One request, and what comes back, on a connection of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What came back: a status, or why there is none.
pub type Outcome = Result<u16, &'static str>;

/// A request that can be sent again and again.
pub struct Request {
    address: SocketAddr,
    text: String,
    patience: Duration,
}

impl Request {
    /// A request without a body. Without an answer for as long as `patience` it has failed.
    pub fn new(address: SocketAddr, method: &str, path: &str, patience: Duration) -> Self {
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
        );
        Self { address, text, patience }
    }

    /// Sends the request, and reads the whole answer.
    pub fn send(&self) -> Outcome {
        match self.exchange() {
            Ok(bytes) => status_of(&bytes),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::ConnectionRefused => "the connection is refused",
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    "the connection is broken"
                }
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "the patience is over",
                _ => "there is no connection",
            }),
        }
    }

    fn exchange(&self) -> io::Result<Vec<u8>> {
        let mut connection = TcpStream::connect_timeout(&self.address, self.patience)?;
        connection.set_read_timeout(Some(self.patience))?;
        connection.set_nodelay(true)?;
        connection.write_all(self.text.as_bytes())?;
        let mut bytes = Vec::with_capacity(1 << 14);
        connection.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The status of a complete answer.
fn status_of(bytes: &[u8]) -> Outcome {
    if bytes.is_empty() {
        return Err("there is no answer");
    }
    let head_length = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let head_length = head_length.ok_or("the answer has no end")?;
    let head = String::from_utf8_lossy(&bytes[..head_length]);
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or("the answer has no status")?;
    let body = &bytes[head_length + 4..];
    let complete = match header(&head, "content-length").and_then(|length| length.parse().ok()) {
        Some(length) => body.len() == length,
        None if header(&head, "transfer-encoding") == Some("chunked") => {
            body.ends_with(b"0\r\n\r\n")
        }
        None => true,
    };
    if complete { Ok(status) } else { Err("the answer is shorter than it says") }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}
