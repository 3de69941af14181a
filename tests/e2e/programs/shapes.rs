// shapes KIND: as shapes.c, of what Rust does.
use std::io::Read;

#[inline(never)]
fn index(numbers: &[u64], at: usize) -> u64 {
    numbers[at] + 1
}

#[inline(never)]
fn none(found: Option<u64>) -> u64 {
    found.unwrap() + 1
}

#[inline(never)]
fn error(found: Result<u64, String>) -> u64 {
    found.expect("the table must be there") + 1
}

#[inline(never)]
fn says() -> u64 {
    panic!("it went wrong at {}", 7);
}

#[inline(never)]
fn null(at: *const u64) -> u64 {
    unsafe { std::ptr::read_volatile(at) + 1 }
}

#[inline(never)]
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let room = [depth; 64];
    let deeper = recurse(depth + 1);
    // After the call, or an optimizer makes a loop of it.
    unsafe { std::ptr::read_volatile(&room[depth as usize & 63]) + deeper }
}

#[inline(never)]
fn aborts() -> u64 {
    std::process::abort();
}

#[inline(never)]
fn in_thread() -> u64 {
    std::thread::spawn(|| null(std::ptr::null())).join().unwrap() + 1
}

#[inline(never)]
fn inner(kind: &str) -> u64 {
    let number = kind.len();
    match kind {
        "index" => index(&[1, 2, 3], number),
        "none" => none(if number > 100 { Some(1) } else { None }),
        "error" => error(Err("no such file".to_string())),
        "says" => says(),
        "null" => null(std::ptr::null()),
        "recurse" => recurse(1),
        "aborts" => aborts(),
        "in-thread" => in_thread(),
        _ => 0,
    }
}

#[inline(never)]
fn outer(kind: &str, more: u64) -> u64 {
    if more > 0 {
        outer(kind, more - 1) + 1
    } else {
        inner(kind) + 2
    }
}

fn main() {
    println!("ready");
    if std::env::args().len() > 2 {
        let _ = std::io::stdin().read(&mut [0u8; 1]);
    }
    let kind = std::env::args().nth(1).unwrap();
    std::process::exit(outer(&kind, 3) as i32 & 1);
}
