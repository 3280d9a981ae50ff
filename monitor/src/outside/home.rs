//! Where a thread idles: the wait that it comes back to.

use super::look::Place;

/// What is known of that. Addresses on a stack descend: what lies deeper is below.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Home {
    /// The place where it has waited last, and how often in a row.
    candidate: Option<(Place, u32)>,
    place: Option<Place>,
    /// Who has called the loop that waits at that place.
    loop_caller: Option<Place>,
}

impl Home {
    /// It waits here. `enough` visits in a row make it its home.
    pub(super) fn visit(&mut self, place: Place, enough: u32) {
        let visits = match self.candidate {
            Some((candidate, visits)) if candidate == place => visits.saturating_add(1),
            _ => 1,
        };
        self.candidate = Some((place, visits));
        if visits >= enough && self.place != Some(place) {
            (self.place, self.loop_caller) = (Some(place), None);
        }
    }

    /// A loop waits here: that is its home.
    pub(super) fn settle(&mut self, place: Place, loop_caller: Option<Place>) {
        self.visit(place, 1);
        self.loop_caller = loop_caller;
    }

    /// Whether there is one.
    pub(super) const fn is_known(&self) -> bool {
        self.place.is_some()
    }

    /// Whether a place is deeper in the stack than the home: in a function that the loop has called.
    pub(super) fn is_above(&self, place: Place) -> bool {
        self.place.is_some_and(|home| place.sp < home.sp)
    }

    /// Who else tells whether a place is in a function that the loop has called: what is called from here. The loop's own wait may
    /// lie deeper than its callbacks, beneath a large array of events.
    pub(super) fn loop_caller(&self, place: Place) -> Option<Place> {
        self.loop_caller.filter(|_| self.place != Some(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sp: u64) -> Place {
        Place { sp, pc: 1 }
    }

    #[test]
    fn who_has_called_a_loop_is_known_for_as_long_as_that_is_the_home() {
        let (mut home, caller) = (Home::default(), Some(at(2000)));
        home.visit(at(1000), 3);
        assert_eq!(home.loop_caller(at(1500)), None);
        home.settle(at(1000), caller);
        home.visit(at(1000), 3);
        assert!(!home.is_above(at(1500)));
        assert_eq!((home.loop_caller(at(1500)), home.loop_caller(at(1000))), (caller, None));
        (0..3).for_each(|_| home.visit(at(1500), 3));
        assert_eq!(home.loop_caller(at(1400)), None, "another loop");
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
