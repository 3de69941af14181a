// named [dies]: for each byte of standard input calls the slow function that begins with it, or dies in one.  Their
// names have a hash in the legacy mangling and none in v0.
use std::io::Read;

// As std::hint::black_box, which Debian 12's rustc (1.63) does not have yet.
#[inline(always)]
fn black_box<T: Copy>(value: T) -> T {
    unsafe { std::ptr::read_volatile(&value) }
}

mod stock {
    #[inline(never)]
    pub fn count(dies: bool) -> u32 {
        if dies {
            unsafe { std::ptr::write_volatile(super::black_box(0 as *mut u32), 1) };
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        super::black_box(7)
    }

    #[inline(never)]
    pub fn order() -> u32 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        super::black_box(8)
    }
}

fn main() {
    let dies = std::env::args().nth(1).is_some();
    let mut byte = [0u8; 1];
    while dies || std::io::stdin().read(&mut byte).unwrap_or(0) == 1 {
        black_box(if byte[0] == b'o' { stock::order() } else { stock::count(dies) });
    }
}
