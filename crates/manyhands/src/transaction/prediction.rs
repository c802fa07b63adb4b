//! Predictions: whether a transaction of mode Auto will write, judged by the transactions before it that executed the same
//! statements. All processes share what is learnt ([`Queue::predict`]).

use manyhands_queue::{Became, Prediction, Queue};

use crate::statement::fingerprint::Fingerprint;

/// How many different statements of a transaction are looked at. Few transactions read more before they write.
const STATEMENTS_MAX: usize = 16;

/// The path of the open transaction: the statements that it has executed.
#[derive(Debug, Default)]
pub(crate) struct Path {
    steps: Vec<Step>,
    pub(crate) wrote: bool,
}

/// What to learn for, and to predict by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The statements until here.
    way: u64,
    /// The last one of them, whatever came before: for paths that are new.
    statement: u64,
}

impl Step {
    /// What earlier transactions on this path have done.
    pub(crate) fn predict(self, queue: &Queue) -> Prediction {
        match queue.predict(self.way) {
            known @ (Prediction::Writes | Prediction::Reads) => known,
            unknown => match queue.predict(self.statement) {
                Prediction::Writes => Prediction::Writes,
                _ => unknown,
            },
        }
    }

    fn learn(self, queue: &Queue, became: Became) {
        queue.learn(self.way, became);
        queue.learn(self.statement, became);
    }
}

impl Path {
    /// The transaction is about to execute a statement that reads. `None` for one that has been looked at before, and after
    /// too many.
    pub(crate) fn step(&mut self, statement: Fingerprint) -> Option<Step> {
        if self.place_of(statement).is_some() || self.steps.len() == STATEMENTS_MAX {
            return None;
        }
        let before = self.steps.last().map_or(0, |it| it.way);
        let step = Step { way: statement.after(before), statement: statement.alone() };
        self.steps.push(step);
        Some(step)
    }

    /// What this statement had read was changed before the transaction wrote. Those before it are not to blame: what
    /// a web framework reads first, for views that only read too, must not make these wait.
    pub(crate) fn note_stale(&mut self, queue: &Queue, statement: Option<Fingerprint>) {
        let place = statement.and_then(|it| self.place_of(it)).unwrap_or_default();
        self.steps.drain(place..).for_each(|step| step.learn(queue, Became::Stale));
        self.wrote = true;
    }

    /// The transaction is about to write, in its turn. Those who wait for the first of its kind learn it now: its commit may take
    /// longer than they wait.
    pub(crate) fn note_write(&mut self, queue: Option<&Queue>) {
        self.wrote = true;
        if let Some(queue) = queue {
            self.steps.drain(..).for_each(|step| step.learn(queue, Became::Writer));
        }
    }

    /// True when it has executed anything.
    pub(crate) fn is_to_learn(&self) -> bool {
        self.wrote || !self.steps.is_empty()
    }

    fn place_of(&self, statement: Fingerprint) -> Option<usize> {
        self.steps.iter().position(|it| it.statement == statement.alone())
    }

    /// The transaction has ended.
    pub(crate) fn end(&mut self, queue: Option<&Queue>) {
        if let Some(queue) = queue {
            let became = if self.wrote { Became::Writer } else { Became::Reader };
            self.steps.iter().for_each(|step| step.learn(queue, became));
        }
        self.steps.clear();
        self.wrote = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop executes the same statement again and again: it is the same way.
    #[test]
    fn a_statement_counts_once() {
        let (one, other) = (Fingerprint::of("SELECT a"), Fingerprint::of("SELECT b"));
        let mut path = Path::default();
        let first = path.step(one).expect("a key");
        assert_eq!(path.step(one), None);
        let second = path.step(other).expect("a key");
        assert_ne!(first.way, second.way);
        let mut reverse = Path::default();
        assert_eq!(reverse.step(other).map(|it| it.statement), Some(second.statement));
        assert_ne!(reverse.step(one).map(|it| it.way), Some(second.way), "the order counts");
    }
}
