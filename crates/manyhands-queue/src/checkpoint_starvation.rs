//! How much of the WAL a reader keeps from being reused, and who the members are: what a writer needs in
//! order to wait for the reader, and to name it.

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
    /// Tells the others who this member is. Once, after joining: nobody reads it but who has to name it.
    pub fn register_label(&self, label: &str) {
        let member = &self.region.shared().members.0[usize::from(self.region.member())];
        member.label.write_text(label);
        member.pid.store(u64::from(self.region.pid()), Ordering::Relaxed);
    }

    /// Who the members are. Some of them may have ended since, and their process ids be others' now.
    pub fn members(&self) -> Vec<MemberInfo> {
        let ready = self.region.ready(Part::Members);
        let members = self.region.shared().members.0[..ready].iter();
        let known = members.filter_map(|member| {
            let pid = u32::try_from(member.pid.load(Ordering::Relaxed)).ok()?;
            (pid != 0).then(|| MemberInfo { pid, label: member.label.read_text() })
        });
        known.collect()
    }

    /// A checkpoint has come to `frame` and no further: a reader holds back `bytes` of the WAL. Only for the
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

    /// A checkpoint was complete: nobody holds anything back.
    pub fn note_no_starvation(&self) {
        let bytes = &self.region.shared().header.checkpoint_starvation.0.bytes;
        // The line is in every writer's cache: it is not written without need.
        if bytes.load(Ordering::Relaxed) != 0 {
            bytes.store(0, Ordering::Relaxed);
        }
    }

    /// How many bytes of the WAL a reader held back at the last checkpoint; 0 when nobody did.
    pub fn starved_bytes(&self) -> u64 {
        self.region.shared().header.checkpoint_starvation.0.bytes.load(Ordering::Relaxed)
    }

    /// For how long checkpoints have not come any further. Meaningful while something is held back.
    pub fn starved_for(&self) -> Duration {
        let since =
            self.region.shared().header.checkpoint_starvation.0.since_ns.load(Ordering::Relaxed);
        Duration::from_nanos(now_ns().saturating_sub(since))
    }
}
