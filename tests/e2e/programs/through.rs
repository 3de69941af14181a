// Dies of a null pointer below functions whose returns a rule may probe: its own, and a C library's.
extern "C" {
    fn wait_until_probed(function: *const u8);
    fn visit(depth: i32, each: extern "C" fn(i32) -> i32) -> i32;
}

#[inline(never)]
fn load(pointer: *const i32) -> i32 {
    unsafe { std::ptr::read_volatile(pointer) }
}

#[no_mangle]
#[inline(never)]
extern "C" fn handle(number: i32) -> i32 {
    load(number as usize as *const i32) + 1
}

#[no_mangle]
#[inline(never)]
extern "C" fn request(depth: i32) -> i32 {
    unsafe { visit(depth, handle) + 1 }
}

fn main() {
    if std::env::args().count() > 2 {
        for function in [handle as *const u8, request as *const u8, visit as *const u8] {
            unsafe { wait_until_probed(function) };
        }
    }
    std::process::exit(request(2));
}
