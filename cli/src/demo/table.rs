//! The table that scrolls.

use super::cause::Blocker;
use crate::arguments::Cause;

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
    blocker: Blocker,
}

impl Table {
    const SLOW: u32 = 10;

    pub(crate) fn new(cause: Cause) -> Self {
        Self { position: 0, blocker: Blocker::new(cause) }
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
        self.blocker.block();
        std::hint::black_box(&self);
    }
}
