//! A loop that calls a handler, as winit's does; the handler tells the beacon. One event takes too long.

use freezeframe_monitor::{Activity, Beacon, Monitor, recover};
use freezeframe_report::file::Size;
use freezeframe_report::show::{Symbols, TextOptions, write_text};
use std::time::Duration;

/// What a windowing library asks of a program.
trait ApplicationHandler {
    fn new_events(&mut self);
    fn window_event(&mut self, number: u32);
    fn about_to_wait(&mut self);
}

/// The library's side: waits, and hands over what has come.
fn run_app(app: &mut dyn ApplicationHandler) {
    for number in 0..5 {
        app.about_to_wait();
        std::thread::sleep(Duration::from_millis(20));
        app.new_events();
        app.window_event(number);
    }
}

struct App {
    beacon: Beacon,
}

impl ApplicationHandler for App {
    fn new_events(&mut self) {
        self.beacon.transition(Activity::AfterWaiting);
    }
    fn window_event(&mut self, number: u32) {
        if number == 3 {
            draw_the_map();
        }
    }
    fn about_to_wait(&mut self) {
        self.beacon.transition(Activity::BeforeWaiting);
    }
}

#[inline(never)]
fn draw_the_map() {
    std::thread::sleep(Duration::from_millis(700));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join(format!("freezeframe-{}.ffr", std::process::id()));
    let (monitor, beacon) = Monitor::builder("main").report_file(&file, Size::default()).watch_run_loop()?;
    run_app(&mut App { beacon });
    std::thread::sleep(Duration::from_millis(200)); // the end of the freeze is written down by the next timeout
    monitor.stop();
    let mut records = recover(&file)?;
    std::fs::remove_file(&file)?;
    let record = records.first_mut().ok_or("no freeze was caught")?;
    Symbols::new().name_frames(record);
    Ok(write_text(&mut std::io::stdout(), record, TextOptions::default())?)
}
