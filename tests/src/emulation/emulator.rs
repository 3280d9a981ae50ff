//! Running a program under the emulator.

use super::Program;
use freezeframe_arch::Architecture;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python interpreter that has unicorn.
#[derive(Clone, Debug)]
pub struct Emulator {
    python: PathBuf,
    script: PathBuf,
}

/// The interpreter that `FREEZEFRAME_PYTHON` names, or `python3`.
pub fn python() -> PathBuf {
    std::env::var_os("FREEZEFRAME_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

impl Emulator {
    /// [`python`] with the runner `script`.
    ///
    /// # Errors
    /// Why there is no emulator to be had.
    pub fn find(script: &Path) -> Result<Self, String> {
        let python = python();
        match Command::new(&python).args(["-c", "import unicorn"]).output() {
            Ok(output) if output.status.success() => Ok(Self { python, script: script.to_owned() }),
            Ok(_) => Err(format!("{} has no module unicorn", python.display())),
            Err(error) => Err(format!("{}: {error}", python.display())),
        }
    }

    /// Runs `program` to its end and returns the words of its trace.
    ///
    /// # Errors
    /// What went wrong, in the runner's words.
    pub fn run(&self, program: &Program) -> Result<Vec<u64>, String> {
        let image = program.path.with_extension("memory");
        std::fs::write(&image, &program.bytes).map_err(|error| format!("{}: {error}", image.display()))?;
        let architecture = match program.architecture {
            Architecture::Arm64 => "arm64",
            Architecture::X86_64 => "x86_64",
        };
        let output = Command::new(&self.python)
            .arg(&self.script)
            .arg(architecture)
            .arg(&image)
            .args([program.base.to_string(), program.entry.to_string()])
            .output()
            .map_err(|error| format!("{}: {error}", self.python.display()))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}: {words}", program.path.display(), output.status));
        }
        let words = output.stdout.chunks_exact(8);
        Ok(words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect())
    }
}
