//! What a process keeps in a static, and its forked children have to be able to use.
//!
//! A fork copies a mutex as another thread holds it, and nobody in the child gives it back. So each generation of processes has a mutex
//! of its own. What an earlier one has put into its own can be looked at, unless it was being changed at the fork.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use manyhands::driver::fork_generation;

/// How many generations have mutexes; then the first one's is used again.
const GENERATIONS: usize = 32;

/// Values of one kind, one for each generation.
pub(crate) struct PerProcess<T>([Mutex<T>; GENERATIONS]);

impl<T> PerProcess<T> {
    /// All of them the same.
    pub(crate) const fn new(values: [Mutex<T>; GENERATIONS]) -> PerProcess<T> {
        PerProcess(values)
    }

    fn place() -> usize {
        fork_generation() as usize % GENERATIONS
    }

    /// This process's own.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0[PerProcess::<T>::place()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first answer of those that this process has inherited, the youngest first.
    pub(crate) fn find_inherited<R>(&self, look: impl Fn(&T) -> Option<R>) -> Option<R> {
        self.0[..PerProcess::<T>::place()].iter().rev().find_map(|older| match older.try_lock() {
            Ok(value) => look(&value),
            Err(TryLockError::Poisoned(value)) => look(&value.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }
}
