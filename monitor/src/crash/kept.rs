//! What a report says of the process and the machine, in memory that nothing can write to: by the time that it is needed,
//! the heap may be damaged.

use super::memory::Guarded;
use crate::facts::{Facts, Moment};
use freezeframe_report::encode::{AppState, Process, System};
use rustix::io::Errno;

/// The strings lie in `_memory`, which lives as long.
pub(super) struct Kept {
    process: Process<'static>,
    system: System<'static>,
    _memory: Guarded,
}

impl Kept {
    pub(super) fn new(facts: &Facts, app: &str, version: &str, moment: &Moment) -> Result<Self, Errno> {
        let process = facts.process(app, version, AppState::Unknown, moment);
        let system = facts.system();
        let texts: [&[u8]; 9] = [
            process.parent_name,
            process.name,
            process.path,
            process.app.as_bytes(),
            process.version.as_bytes(),
            system.os,
            system.build,
            system.kernel,
            system.model,
        ];
        let memory = Guarded::new(texts.iter().map(|text| text.len()).sum::<usize>().max(1))?;
        let mut free = memory.start();
        let kept = texts.map(|text| {
            // SAFETY: the mapping has room for all of the texts, one behind the other, and nobody else has it.
            let copy: &'static [u8] = unsafe {
                free.copy_from_nonoverlapping(text.as_ptr(), text.len());
                std::slice::from_raw_parts(free, text.len())
            };
            free = free.wrapping_add(text.len());
            copy
        });
        memory.make_read_only()?;
        let [parent_name, name, path, app, version, os, build, kernel, model] = kept;
        let text = |bytes: &'static [u8]| std::str::from_utf8(bytes).unwrap_or("");
        Ok(Self {
            process: Process { parent_name, name, path, app: text(app), version: text(version), ..process },
            system: System { os, build, kernel, model, ..system },
            _memory: memory,
        })
    }

    /// The process as it is now.
    pub(super) fn process(&self, moment: &Moment) -> Process<'_> {
        moment.of(self.process)
    }

    pub(super) fn system(&self) -> System<'_> {
        self.system
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;

    #[test]
    fn what_is_kept_says_the_same_and_does_not_lie_on_the_heap() {
        let facts = Facts::read(Subject::Own).unwrap();
        let moment = Moment::read(Subject::Own);
        let kept = Kept::new(&facts, "the.app", "1.2", &moment).unwrap();
        let (process, heaps) =
            (kept.process(&moment), facts.process("the.app", "1.2", AppState::Unknown, &moment));
        assert_eq!(format!("{process:?}"), format!("{heaps:?}"));
        assert_eq!(format!("{:?}", kept.system()), format!("{:?}", facts.system()));
        let memory = kept._memory.start() as usize..kept._memory.end();
        let texts = [process.path, process.app.as_bytes(), process.parent_name, kept.system().model];
        assert!(texts.iter().all(|text| memory.contains(&(text.as_ptr() as usize))));
    }
}
