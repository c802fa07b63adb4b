//! The queue with real files and real processes. Members are killed with SIGKILL; nothing sleeps to
//! decide a result, and every wait has a deadline.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

// What the tests stand on.
mod child;
mod echo;
mod place;

// The promises.
mod joining;
mod file;
mod order;
mod succession;
mod turns;
mod blocks;
mod recent;
mod ids;
mod crowd;
mod waking;
mod barging;
mod forked;
mod room;
mod garbage;
mod truncated;
mod strain;
mod onlooking;
