//! The engines that a program knows.

use anyhow::{Context, Result};

use super::{built_in::BuiltIn, engine::Engine};

/// Engines by name, in the order in which they are measured and shown.
pub struct Engines(Vec<Box<dyn Engine>>);

impl Engines {
    /// Those of every build: Manyhands and stock SQLite.
    pub fn built_in() -> Self {
        Self(BuiltIn::ALL.map(|engine| Box::new(engine) as Box<dyn Engine>).into())
    }

    /// One more.
    ///
    /// # Panics
    /// If there is one with its name.
    #[must_use]
    pub fn with(mut self, engine: impl Engine + 'static) -> Self {
        assert!(self.find(engine.name()).is_err(), "two engines {}", engine.name());
        self.0.push(Box::new(engine));
        self
    }

    /// The engine of that name.
    pub fn find(&self, name: &str) -> Result<&dyn Engine> {
        self.all()
            .find(|engine| engine.name() == name)
            .with_context(|| format!("this program knows no engine {name}"))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &dyn Engine> {
        self.0.iter().map(Box::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::workload::{Demand, Workload};

    /// Every workload can run what it compares by default.
    #[test]
    fn default_engines_are_accepted() {
        for &workload in Workload::value_variants() {
            for in_transaction in [false, true] {
                let demand = Demand { workload, in_transaction, is_python: false };
                for engine in Engines::built_in().all() {
                    if engine.is_default(demand) {
                        assert_eq!(engine.accepts(demand), Ok(()));
                    }
                }
            }
        }
    }
}
