//! One line for each property.

/// A property, how it is checked, and what was found against it.
#[derive(Debug)]
pub struct Property {
    name: &'static str,
    how: &'static str,
    failures: usize,
}

impl Property {
    /// Nothing is found against it yet.
    pub const fn new(name: &'static str, how: &'static str) -> Self {
        Self { name, how, failures: 0 }
    }

    /// Notes whether something holds that should, and says so if not.
    pub fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.failures += 1;
            println!("{}: {}", self.name, otherwise());
        }
    }

    /// Prints the line, with what was counted, and returns whether the property holds.
    pub fn conclude(self, counts: &str) -> bool {
        let Self { name, how, failures } = self;
        match failures {
            0 => println!("proof: {name} | {how} | {counts}"),
            _ => println!("unproved: {name} | {how} | {failures} failures; {counts}"),
        }
        failures == 0
    }
}
