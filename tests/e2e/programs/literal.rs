// Reads at an address that was written down: there is no pointer, and nothing is null.
#[inline(never)]
fn read() -> u32 {
    unsafe { std::ptr::read_volatile(8 as *const u32) }
}

fn main() {
    std::process::exit(read() as i32);
}
