//! More clients than slots.

use std::path::Path;
use std::sync::Arc;

use manyhands_queue::{Queue, SLOTS};

use crate::child::{Process, listen, tell};
use crate::echo::{reversed, submit};
use crate::place::{Place, join};

const CLIENTS: usize = 2000;
const STACK_BYTES: usize = 256 * 1024;

fn run(queue: &Arc<Queue>, process: u32) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS as u32 {
            let client = move || {
                let request = [process, client].map(u32::to_ne_bytes).concat();
                assert_eq!(submit(queue, &request), reversed(&request));
            };
            std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, client)
                .unwrap();
        }
    });
}

pub fn clients(path: &Path) {
    let queue = join(path).unwrap();
    tell("joined");
    listen();
    run(&queue, 2);
    tell("served");
}

/// 4,000 clients in two processes want 2,048 slots while somebody sits on most of them: all are
/// served, each with its own answer.
#[test]
fn more_clients_than_slots_are_all_served() {
    let place = Place::new();
    let queue = place.join();
    let mut other = Process::start("clients", &place.path());
    other.expect("joined");
    let deadline = manyhands_queue::Deadline::after(crate::place::LONG);
    let held: Vec<_> = (0..SLOTS - 48).map(|_| queue.claim(deadline).unwrap()).collect();
    other.say("go");
    run(&queue, 1);
    other.expect("served");
    other.wait_ok();
    drop(held);
    assert_eq!(queue.counters()[1], 2 * CLIENTS as u64, "each exactly once");
    assert!(queue.is_idle());
}
