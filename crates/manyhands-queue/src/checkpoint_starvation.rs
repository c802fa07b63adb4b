//! Checkpoint starvation: how much of the WAL a reader keeps from being reused, and who the members are. A writer needs both to
//! wait for the reader, and to name it.

use core::time::Duration;

use crate::clock::now_ns;
use crate::queue::Queue;
use crate::room::Part;
use crate::sync::Ordering;

/// A member, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its process id, as its own pid namespace counts.
    pub pid: u32,
    /// The label that it gave itself when it joined.
    pub label: String,
}

impl Queue {
    /// Tells the others who this member is. Called once, after joining; read only for messages.
    pub fn register_label(&self, label: &str) {
        let member = &self.region.shared().members.0[usize::from(self.region.member())];
        member.label.write_text(label);
        member.pid.store(u64::from(self.region.pid()), Ordering::Relaxed);
    }

    /// Who the members are. Some of them may have ended since, and their process ids may belong to others now.
    pub fn members(&self) -> Vec<MemberInfo> {
        let ready = self.region.ready(Part::Members);
        let members = self.region.shared().members.0[..ready].iter();
        let known = members.filter_map(|member| {
            let pid = u32::try_from(member.pid.load(Ordering::Relaxed)).ok()?;
            (pid != 0).then(|| MemberInfo { pid, label: member.label.read_text() })
        });
        known.collect()
    }

    /// A checkpoint has come to `frame` and no further: a reader keeps `bytes` of the WAL from being reused. Only for the
    /// leader.
    pub fn note_starvation(&self, bytes: u64, frame: u64) {
        let held = &self.region.shared().header.checkpoint_starvation.0;
        let goes_on = held.bytes.load(Ordering::Relaxed) != 0;
        if !goes_on || held.frame.load(Ordering::Relaxed) != frame {
            held.frame.store(frame, Ordering::Relaxed);
            held.since_ns.store(now_ns(), Ordering::Relaxed);
        }
        held.bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// A checkpoint was complete: no reader is in the way.
    pub fn note_no_starvation(&self) {
        let bytes = &self.region.shared().header.checkpoint_starvation.0.bytes;
        // The line is in every writer's cache: it is not written without need.
        if bytes.load(Ordering::Relaxed) != 0 {
            bytes.store(0, Ordering::Relaxed);
        }
    }

    /// How many bytes of the WAL a reader kept from being reused at the last checkpoint; 0 without such a reader.
    pub fn starved_bytes(&self) -> u64 {
        self.region.shared().header.checkpoint_starvation.0.bytes.load(Ordering::Relaxed)
    }

    /// For how long checkpoints have not come any further. Meaningful during starvation only.
    pub fn starved_for(&self) -> Duration {
        let since =
            self.region.shared().header.checkpoint_starvation.0.since_ns.load(Ordering::Relaxed);
        Duration::from_nanos(now_ns().saturating_sub(since))
    }
}
