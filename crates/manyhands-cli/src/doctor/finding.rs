//! What a check has found.

use std::fmt;

use serde::Serialize;

/// How bad it is; what is worse is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    /// It works, and may not for long, or not well.
    Warning,
    /// It does not work, or data is in danger.
    Error,
}

/// A verdict with its reason, and what to do.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
    pub reason: String,
    /// `None` where there is nothing to do.
    pub remedy: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, reason: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, reason: reason.into(), remedy: None }
    }

    pub fn warning(
        check: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (reason, remedy) = (reason.into(), Some(remedy.into()));
        Self { check, verdict: Verdict::Warning, reason, remedy }
    }

    pub fn error(
        check: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (reason, remedy) = (reason.into(), Some(remedy.into()));
        Self { check, verdict: Verdict::Error, reason, remedy }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "WARNING",
            Verdict::Error => "ERROR",
        };
        write!(f, "{verdict:<8} {:<12} {}", self.check, self.reason)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n{:21} -> {remedy}", ""),
            None => Ok(()),
        }
    }
}
