//! Readable names.

use std::fmt::{self, Write};

/// More than anyone reads: a short mangled name can stand for one that fills the memory.
const MAX_READABLE: usize = 1 << 16;

/// A readable name: Rust's without the hash, C++'s with its parameters, others as they are.
pub(super) fn readable(name: &str) -> String {
    let mut text = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        if write!(text, "{rust:#}").is_ok() {
            return text.0;
        }
    } else if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && symbol.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::new()).is_ok()
    {
        return text.0;
    }
    name.to_owned()
}

/// A readable name out of a Mach-O image's symbol table. The one underscore that C compilers put before every name is
/// taken away. Swift's names (`_$s…`) stay as they are there, and Objective-C's (`-[Class method]`) begin without one.
pub(super) fn readable_mach_o(name: &str) -> String {
    match name.strip_prefix('_') {
        Some(c) if !c.starts_with('$') => readable(c),
        _ => name.to_owned(),
    }
}

/// Text of at most [`MAX_READABLE`] bytes.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_READABLE {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_readable() {
        assert_eq!(readable("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(readable("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(readable("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(readable("main"), "main");
    }

    #[test]
    fn of_mach_o_one_underscore_goes_and_swift_and_objective_c_stay_raw() {
        for (raw, expected) in [
            ("_main", "main"),
            ("__dyld_start", "_dyld_start"),
            ("___main_block_invoke", "__main_block_invoke"),
            ("__ZN3foo3barEi", "foo::bar(int)"),
            ("__ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("__RNvC6_123foo3bar", "123foo::bar"),
            ("-[NSRunLoop runMode:beforeDate:]", "-[NSRunLoop runMode:beforeDate:]"),
            ("+[Class(Category) method]", "+[Class(Category) method]"),
            ("_$s4main3fooyyF", "_$s4main3fooyyF"),
            ("$s4main3fooyyF", "$s4main3fooyyF"),
            ("__T04main3fooyyF", "_T04main3fooyyF"),
            ("_TIFFOpen", "TIFFOpen"),
            ("start", "start"),
            ("_", ""),
        ] {
            assert_eq!(readable_mach_o(raw), expected, "{raw}");
        }
    }

    #[test]
    fn a_name_that_would_fill_the_memory_stays_as_it_is() {
        // Each type is a pair of the one before it: twice as long in the text, a few letters longer in the name.
        let nested = |rounds: usize| {
            let mut name = String::from("_Z1fSt4pairIiiE");
            for round in 0..rounds {
                let before = if round == 0 { "S0_".to_owned() } else { format!("S{}_", base_36(round)) };
                name.push_str(&format!("S_I{before}{before}E"));
            }
            name
        };
        let readable_of = |rounds| readable(&nested(rounds));
        assert_eq!(
            readable_of(1),
            "f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)"
        );
        assert_eq!(readable_of(30), nested(30));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Letters that mangled names are made of.
        #[test]
        fn any_name_is_made_readable_or_stays(name in "_(ZN|Z|R)[SIEN0-9CvtTKPRFJXLs_a-d]{0,200}") {
            proptest::prop_assert!(readable(&name).len() <= MAX_READABLE);
            proptest::prop_assert!(!readable_mach_o(&["_", &name].concat()).is_empty());
        }
    }

    fn base_36(number: usize) -> String {
        let digit = |n: usize| char::from_digit(n as u32, 36).unwrap_or('0').to_ascii_uppercase();
        if number < 36 {
            digit(number).to_string()
        } else {
            format!("{}{}", digit(number / 36), digit(number % 36))
        }
    }
}
