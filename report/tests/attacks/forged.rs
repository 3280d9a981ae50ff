//! Reports whose checksums are right and whose contents are not meant well.

use crate::common::{Captured, Folder, about, capture, owner, portion};
use freezeframe_report::encode::{About, Crash, Kind, Process, System, encode};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::{SECTION_HEADER, Section, crc};
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::{Symbols, TextOptions, list_line, to_json, write_apple, write_text};
use std::time::Duration;

/// Titles, colours, C1 controls, ends of lines and directions of text.
pub(crate) const EVIL: &str =
    "\u{1b}]0;evil\u{7}\u{1b}[31m\r\n\u{85}\u{9b}1m\u{202e}\u{2028}\u{2067}\u{61c}\u{7f}\u{0}\"\\";

/// What must not reach a terminal; written down once more, not asked of the code that it tests.
fn is_harmful(c: char) -> bool {
    matches!(c as u32, 0..=0x1f | 0x7f..=0x9f | 0x61c | 0x200e | 0x200f | 0x2028..=0x202e | 0x2066..=0x2069)
}

pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) apple: String,
    pub(crate) json: String,
    pub(crate) line: String,
}

pub(crate) fn show(record: &Record) -> Shown {
    let (mut text, mut apple) = (Vec::new(), Vec::new());
    write_text(&mut text, record, TextOptions::default()).unwrap();
    write_apple(&mut apple, record).unwrap();
    Shown {
        text: String::from_utf8(text).unwrap(),
        apple: String::from_utf8(apple).unwrap(),
        json: to_json(record).unwrap(),
        line: list_line(record),
    }
}

impl Shown {
    pub(crate) fn check(&self) {
        for (form, shown) in
            [("text", &self.text), ("Apple", &self.apple), ("JSON", &self.json), ("list", &self.line)]
        {
            let found = shown.chars().filter(|c| is_harmful(*c) && *c != '\n').count();
            assert_eq!(found, 0, "harmful characters in the {form} form");
        }
        assert!(!self.line.contains('\n'));
    }

    fn lines(&self) -> [usize; 3] {
        [&self.text, &self.apple, &self.json].map(|shown| shown.lines().count())
    }
}

/// The sections of a record: number and body.
pub(crate) fn sections(mut record: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut sections = Vec::new();
    while let Some((head, rest)) = record.split_at_checked(SECTION_HEADER) {
        let length = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
        sections.push((u32::from_le_bytes(head[..4].try_into().unwrap()), rest[..length].to_vec()));
        record = &rest[length..];
    }
    sections
}

pub(crate) fn join(sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut record = Vec::new();
    for (kind, body) in sections {
        let head = [kind.to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
        record.extend([&head[..], &crc(&[&head, body]).to_le_bytes(), body].concat());
    }
    record
}

/// Puts other bytes in the place of as many.
pub(crate) fn replace(sections: &mut [(u32, Vec<u8>)], from: &[u8], to: &[u8]) -> usize {
    assert_eq!(from.len(), to.len());
    let mut found = 0;
    for (_, body) in sections {
        while let Some(at) = body.windows(from.len()).position(|part| part == from) {
            body[at..at + to.len()].copy_from_slice(to);
            found += 1;
        }
    }
    found
}

pub(crate) fn stored(folder: &Folder, name: &str, record: &[u8], stride: u32) -> Record {
    let path = folder.path(name);
    let file = ReportFile::open(&path, Size { slots: 3, stride }, owner()).unwrap();
    file.ring().write(record).unwrap();
    drop(file);
    let mut report = Report::open(&path).unwrap();
    assert!(report.torn.is_empty() && report.records.len() == 1);
    report.records.remove(0)
}

pub(crate) fn encoded(captured: &Captured, about: &About<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    let encoded = encode(&mut bytes, about, &captured.snapshot.view(), &captured.images);
    bytes.truncate(encoded.bytes);
    bytes
}

/// A record with this text in every field that has one.
fn with_text<'a>(text: &'a str, crash: bool) -> About<'a> {
    let usual = about(1);
    let bytes = text.as_bytes();
    let process =
        Process { name: bytes, path: bytes, parent_name: bytes, app: text, version: text, ..usual.process };
    let system = System { os: bytes, build: bytes, kernel: bytes, model: bytes, ..usual.system };
    let signal = Crash { signal: 11, code: 1, address: None, sender: None, name: text, code_name: text };
    let kind = if crash { Kind::Crash } else { Kind::Freeze };
    About { component: text, kind, crash: crash.then_some(signal), process, system, ..usual }
}

/// As many bytes as `like`, and text.
fn evil_bytes(like: &[u8]) -> Vec<u8> {
    let mut evil = EVIL.repeat(like.len() / EVIL.len() + 1);
    while evil.len() > like.len() {
        evil.pop();
    }
    evil.push_str(&"x".repeat(like.len() - evil.len()));
    evil.into_bytes()
}

#[test]
fn no_text_of_a_report_reaches_the_terminal_as_a_command_and_json_keeps_it() {
    const NAME: &str = "a threads name";
    let folder = Folder::new();
    let captured = std::thread::Builder::new().name(NAME.into()).spawn(capture).unwrap().join().unwrap();
    let program = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
    let mut fields = 0;
    for crash in [false, true] {
        let harmless = stored(
            &folder,
            &format!("harmless-{crash}"),
            &encoded(&captured, &with_text("text", crash)),
            1 << 20,
        );
        let mut parts = sections(&encoded(&captured, &with_text(EVIL, crash)));
        let images = replace(&mut parts, &program, &evil_bytes(&program));
        let threads = replace(&mut parts, NAME.as_bytes(), &evil_bytes(NAME.as_bytes()));
        assert!(images >= 1 && threads >= 1, "{images} images, {threads} threads");
        let record = stored(&folder, &format!("evil-{crash}"), &join(&parts), 1 << 20);
        assert!(record.complete, "{:?}", record.faults);
        let shown = show(&record);
        shown.check();
        assert_eq!(shown.lines(), show(&harmless).lines(), "a line more than without ends of lines in names");
        let json: serde_json::Value = serde_json::from_str(&shown.json).unwrap();
        let texts = count_texts(&json, EVIL);
        assert_eq!(texts, if crash { 12 } else { 10 }, "fields that keep their text");
        assert!(count_texts(&json, str::from_utf8(&evil_bytes(&program)).unwrap()) >= 1);
        fields += texts + 2;
    }
    println!("attacks: {fields} fields with escape sequences");
}

fn count_texts(json: &serde_json::Value, text: &str) -> usize {
    match json {
        serde_json::Value::String(found) => usize::from(found == text),
        serde_json::Value::Array(all) => all.iter().map(|one| count_texts(one, text)).sum(),
        serde_json::Value::Object(all) => all.values().map(|one| count_texts(one, text)).sum(),
        _ => 0,
    }
}

#[test]
fn a_report_of_twice_the_size_takes_no_more_than_in_proportion() {
    let folder = Folder::new();
    let captured = capture();
    let parts = sections(&encoded(&captured, &about(1)));
    let is = |section| move |part: &&(u32, Vec<u8>)| part.0 == section as u32;
    let thread = parts.iter().filter(is(Section::Thread)).max_by_key(|part| part.1.len()).unwrap().clone();
    let images = parts.iter().find(is(Section::Images)).unwrap().clone();
    let took = |copies: usize| {
        let mut large = parts.clone();
        let at = large.iter().position(|part| part.0 == Section::Images as u32).unwrap();
        // Threads, and images: the same over and over.
        large.splice(at..at, std::iter::repeat_n(thread.clone(), copies));
        let (count, bodies) = images.1.split_first_chunk::<4>().unwrap();
        let many = (u32::from_le_bytes(*count) * copies as u32).to_le_bytes().to_vec();
        large.iter_mut().filter(|part| part.0 == Section::Images as u32).for_each(|part| {
            part.1 = [many.clone(), bodies.repeat(copies)].concat();
        });
        let record = join(&large);
        let mut best = Duration::MAX;
        let path = format!("large-{copies}");
        drop(stored(&folder, &path, &record, 8 << 20));
        for _ in 0..3 {
            let begun = crate::cpu_time();
            let mut report = Report::open(&folder.path(&path)).unwrap();
            Symbols::new().name_frames(&mut report.records[0]);
            let shown = show(&report.records[0]);
            best = best.min(crate::cpu_time() - begun);
            assert!(shown.text.len() < 64 * record.len(), "{} bytes of text", shown.text.len());
        }
        std::fs::remove_file(folder.path(&path)).unwrap();
        (best, record.len())
    };
    // On a loaded machine one measurement says little: in proportion once is in proportion.
    let fair = (0..5).find_map(|_| {
        let ((once, bytes), (twice, more)) = (took(portion(200)), took(portion(400)));
        println!("{bytes} bytes take {once:?}, {more} bytes {twice:?}");
        let (size, time) = (more as f64 / bytes as f64, twice.as_secs_f64() / once.as_secs_f64());
        (time < size * 1.6).then_some((bytes, once, size, time))
    });
    let (bytes, once, size, time) = fair.expect("more than in proportion, five times");
    println!("attacks: {bytes} bytes take {once:?}, {size:.2} times as many {time:.2} times as long");
}
