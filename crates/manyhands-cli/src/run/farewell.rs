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
            ffi::{OsStrExt, OsStringExt},
            net::{SocketAddr, UnixDatagram},
        },
    },
    path::PathBuf,
    process,
    sync::mpsc::Sender,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

/// Tells the library where to send.
pub const VARIABLE: &str = "MANYHANDS_RUN";
/// A longer datagram loses its end; a thousand libraries fit.
const BYTES_MAX: usize = 128 << 10;

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
    name: OsString,
}

impl Ear {
    /// # Errors
    /// There are no such sockets here: the looks are all there is then.
    pub fn open() -> io::Result<Self> {
        // Containers may share a network and not the numbers of their processes.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("manyhands-run-{}-{}", process::id(), now.as_nanos());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        Ok(Self { socket, name: name.into() })
    }

    /// For the environment of the command.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Passes on what is heard, and `None` when `end` is called: what was said before comes before.
    pub fn listen<Event: Send + 'static>(
        self,
        events: Sender<Event>,
        event: impl Fn(Option<Farewell>) -> Event + Send + 'static,
    ) {
        thread::spawn(move || {
            let mut datagram = vec![0; BYTES_MAX];
            loop {
                let heard = self.socket.recv(&mut datagram).ok().filter(|bytes| *bytes > 0);
                let farewell = heard.map(|bytes| Farewell::parse(&datagram[..bytes]));
                let is_end = farewell.is_none();
                if events.send(event(farewell)).is_err() || is_end {
                    break;
                }
            }
        });
    }
}

/// Says that nothing more will be said; false if nobody hears it.
pub fn end(name: &OsStr) -> bool {
    let address = SocketAddr::from_abstract_name(name.as_bytes());
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(&[], &address));
    sent.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// All that was said before the end is heard, in its order.
    #[test]
    fn what_is_said_is_heard() {
        let ear = Ear::open().expect("Linux has such sockets");
        let name = ear.name().to_owned();
        let (sender, heard) = channel();
        ear.listen(sender, |farewell| farewell);
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a short name");
        let mouth = UnixDatagram::unbound().expect("a socket");
        mouth
            .send_to_addr(b"n7\0p/bin/a b\0aa\0a-c\0o/lib/x.so\0d/data/app.db\0?later\0", &address)
            .expect("heard");
        assert!(end(&name));
        let farewell = Farewell {
            pid: 7,
            program: "/bin/a b".into(),
            arguments: vec!["a".into(), "-c".into()],
            libraries: vec!["/lib/x.so".into()],
            databases: vec!["/data/app.db".into()],
        };
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Some(farewell), None]);
        assert!(!end(OsStr::new("manyhands-run-nobody")));
    }
}
