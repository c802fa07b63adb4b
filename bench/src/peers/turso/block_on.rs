//! Runs a future on the thread that waits for it: each client is a thread, as for the other engines.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The future's result.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        // Turso wakes who waits for another thread's work at once, to ask again: that thread gets the core first.
        thread::yield_now();
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use super::*;

    /// Ready at once, after a wake-up of its own, and after one from another thread.
    #[test]
    fn results_come_back() {
        assert_eq!(block_on(async { 1 }), 1);
        for is_elsewhere in [false, true] {
            let mut polls = 0;
            let counted = future::poll_fn(|context| {
                polls += 1;
                if polls == 3 {
                    return Poll::Ready(polls);
                }
                let waker = context.waker().clone();
                if is_elsewhere {
                    thread::spawn(move || waker.wake());
                } else {
                    waker.wake();
                }
                Poll::Pending
            });
            assert_eq!(block_on(counted), 3);
        }
    }
}
