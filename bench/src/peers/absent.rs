//! The peers of a program that was built without them: each says so, and is left out.

use std::{path::Path, time::Duration};

use anyhow::{Result, bail};

use crate::{
    engine::{Engine, Opened, Refusal, Tables},
    workload::Demand,
};

const WHY: &str = "this program was built without `--features peers`";

/// A peer by its name.
pub struct Absent(pub &'static str);

/// The names of all peers.
pub const NAMES: [&str; 4] = ["turso", "postgres", "postgres-read-committed", "postgres-pipelined"];

impl Engine for Absent {
    fn name(&self) -> &'static str {
        self.0
    }

    fn version(&self) -> Result<String, Refusal> {
        Err(Refusal(WHY.to_owned()))
    }

    fn is_default(&self, _demand: Demand) -> bool {
        false
    }

    fn accepts(&self, _demand: Demand) -> Result<(), String> {
        Ok(())
    }

    fn prepare(&self, _directory: &Path, _schema: &str) -> Result<Box<dyn Tables>> {
        bail!(WHY)
    }

    fn open(&self, _: &Path, _: Duration, _: &str) -> Result<Box<dyn Opened>, Refusal> {
        Err(Refusal(WHY.to_owned()))
    }
}
