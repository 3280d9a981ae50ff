//! Where a thread idles: the wait that it comes back to.

use super::look::Place;

/// What is known of that. Addresses on a stack descend: what lies deeper is below.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Home {
    /// The place where it has waited last, and how often in a row.
    candidate: Option<(Place, u32)>,
    place: Option<Place>,
}

impl Home {
    /// It waits here. `enough` visits in a row make it its home.
    pub(super) fn visit(&mut self, place: Place, enough: u32) {
        let visits = match self.candidate {
            Some((candidate, visits)) if candidate == place => visits.saturating_add(1),
            _ => 1,
        };
        self.candidate = Some((place, visits));
        if visits >= enough {
            self.place = Some(place);
        }
    }

    /// Whether there is one.
    pub(super) const fn is_known(&self) -> bool {
        self.place.is_some()
    }

    /// Whether a place is deeper in the stack than the home: in a function that the loop has called.
    pub(super) fn is_above(&self, place: Place) -> bool {
        self.place.is_some_and(|home| place.sp < home.sp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sp: u64) -> Place {
        Place { sp, pc: 1 }
    }

    #[test]
    fn a_place_that_is_come_back_to_is_home_and_what_lies_deeper_is_not() {
        let mut home = Home::default();
        home.visit(at(1000), 2);
        assert!(!home.is_known() && !home.is_above(at(900)));
        home.visit(at(1000), 2);
        assert!(
            home.is_known() && home.is_above(at(900)) && !home.is_above(at(1000)) && !home.is_above(at(1100))
        );
        home.visit(at(900), 2);
        home.visit(at(1000), 2);
        home.visit(at(900), 2);
        assert!(home.is_above(at(900)), "not twice in a row");
        home.visit(at(900), 2);
        assert!(!home.is_above(at(900)), "it stays there now: another loop");
    }
}
