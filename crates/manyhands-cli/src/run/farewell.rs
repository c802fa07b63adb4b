//! What a process says at its end, by the library that was preloaded into it: which files it has loaded.
//!
//! A process can live and end between two looks. If it ends as programs do, by `exit`, the library sends one datagram
//! to a socket without a name in the file system, whose name is in `MANYHANDS_RUN`. Each field ends with a zero byte, and
//! its first byte says what it is:
//!
//! | | |
//! |---|---|
//! | `n` | the number of the process, in digits |
//! | `p` | the program's file |
//! | `a` | an argument, the program's name included |
//! | `o` | the file of a library that is loaded; names that are no absolute paths are passed over |
//! | `d` | a database that was opened through Manyhands |
//!
//! The library does not wait for an answer, and says nothing where it cannot. What is sent is trusted as far as a message
//! on the terminal goes.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStringExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    path::PathBuf,
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Tells the library where to send.
pub const VARIABLE: &str = "MANYHANDS_RUN";
/// A longer datagram loses its end; a thousand libraries fit.
const BYTES_MAX: usize = 128 << 10;

/// Zero would be no limit to the wait.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// What a process has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Farewell {
    pub pid: i32,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub libraries: Vec<PathBuf>,
    pub databases: Vec<PathBuf>,
}

impl Farewell {
    fn parse(datagram: &[u8]) -> Self {
        let mut farewell = Self::default();
        for field in datagram.split(|byte| *byte == 0) {
            let Some((kind, value)) = field.split_first() else { continue };
            let path = || PathBuf::from(OsString::from_vec(value.to_vec()));
            match kind {
                b'n' => {
                    let digits = std::str::from_utf8(value).ok();
                    farewell.pid =
                        digits.and_then(|digits| digits.parse().ok()).unwrap_or_default();
                }
                b'p' => farewell.program = path(),
                b'a' => farewell.arguments.push(String::from_utf8_lossy(value).into_owned()),
                b'o' => farewell.libraries.push(path()),
                b'd' => farewell.databases.push(path()),
                // From a newer library.
                _ => {}
            }
        }
        farewell
    }
}

/// Where farewells are heard.
pub struct Ear {
    socket: UnixDatagram,
    /// `None` where there are no such sockets, and only this process can wake the ear.
    name: Option<OsString>,
    datagram: Vec<u8>,
}

/// Wakes whoever waits at the ear.
pub struct Waker(UnixDatagram);

impl Ear {
    /// # Errors
    /// The process cannot open more files.
    pub fn open() -> io::Result<(Self, Waker)> {
        // Containers may share a network and not the numbers of their processes.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("manyhands-run-{}-{}", process::id(), now.as_nanos());
        let bound = SocketAddr::from_abstract_name(&name).and_then(|address| {
            let (socket, waker) = (UnixDatagram::bind_addr(&address)?, UnixDatagram::unbound()?);
            waker.connect_addr(&address)?;
            Ok((socket, waker))
        });
        let name = bound.is_ok().then(|| name.into());
        let (socket, waker) = bound.or_else(|_| UnixDatagram::pair())?;
        // A queue that is full is not empty either, so the ear is awake.
        waker.set_nonblocking(true)?;
        Ok((Self { socket, name, datagram: vec![0; BYTES_MAX] }, Waker(waker)))
    }

    /// For the environment of the command.
    pub fn name(&self) -> Option<&OsStr> {
        self.name.as_deref()
    }

    /// Waits for the next farewell; `None` at the end of the time, or when the ear is woken.
    pub fn wait(&mut self, pause: Duration) -> Option<Farewell> {
        self.socket.set_read_timeout(Some(pause.max(PAUSE_MIN))).ok()?;
        self.hear()
    }

    /// All that was said until now.
    pub fn drain(&mut self) -> Vec<Farewell> {
        if self.socket.set_nonblocking(true).is_err() {
            return Vec::new();
        }
        let heard = std::iter::from_fn(|| self.hear()).collect();
        // It cannot fail where the opposite did not.
        let _ = self.socket.set_nonblocking(false);
        heard
    }

    fn hear(&mut self) -> Option<Farewell> {
        let bytes = self.socket.recv(&mut self.datagram).ok().filter(|bytes| *bytes > 0)?;
        Some(Farewell::parse(&self.datagram[..bytes]))
    }
}

impl Waker {
    pub fn wake(&self) {
        let _ = self.0.send(&[]);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// Fields in any order, also unknown ones; and the ear can be woken without a word.
    #[test]
    fn what_is_said_is_heard() {
        let (mut ear, waker) = Ear::open().expect("Linux has such sockets");
        let name = ear.name().expect("a name").to_owned();
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a short name");
        let mouth = UnixDatagram::unbound().expect("a socket");
        let said = b"n7\0p/bin/a b\0aa\0a-c\0o/lib/x.so\0d/data/app.db\0?later\0";
        mouth.send_to_addr(said, &address).expect("heard");
        mouth.send_to_addr(said, &address).expect("heard");
        let farewell = Farewell {
            pid: 7,
            program: "/bin/a b".into(),
            arguments: vec!["a".into(), "-c".into()],
            libraries: vec!["/lib/x.so".into()],
            databases: vec!["/data/app.db".into()],
        };
        assert_eq!(ear.wait(Duration::from_secs(60)), Some(farewell.clone()));
        assert_eq!(ear.drain(), [farewell]);
        assert_eq!(ear.drain(), []);
        waker.wake();
        assert_eq!(ear.wait(Duration::from_secs(60)), None);
    }
}
