//! The table that scrolls.

use super::cause::Blocker;
use super::crash::crash;
use crate::arguments::{Cause, Crash};

/// What a slow row does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slow {
    Blocks(Cause),
    Crashes(Crash),
}

/// A row that was drawn.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) text: String,
    pub(crate) blocked: bool,
}

/// A table of which every tenth row takes long to draw.
#[derive(Debug)]
pub(crate) struct Table {
    position: u32,
    slow: Slow,
}

impl Table {
    const SLOW: u32 = 10;

    pub(crate) fn new(slow: Slow) -> Self {
        Self { position: 0, slow }
    }

    /// Moves one row down and draws it.
    #[inline(never)]
    pub(crate) fn scroll(&mut self) -> Row {
        self.position += 1;
        self.draw_row(self.position)
    }

    #[inline(never)]
    fn draw_row(&mut self, number: u32) -> Row {
        let blocked = number.is_multiple_of(Self::SLOW);
        if blocked {
            self.load_picture();
        }
        Row { number, text: "▪".repeat((number % Self::SLOW) as usize + 1), blocked }
    }

    #[inline(never)]
    fn load_picture(&mut self) {
        match self.slow {
            Slow::Blocks(cause) => Blocker::new(cause).block(),
            Slow::Crashes(way) => crash(way),
        }
        std::hint::black_box(&self);
    }
}
