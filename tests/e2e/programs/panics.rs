// panics [hangs]: as leaves throw, by panics that catch_unwind ends; or one caught in handle itself, which then hangs.
use std::io::{Read, Write};

fn wait_deep_down() {
    let room = std::mem::MaybeUninit::<[u8; 48 * 1024]>::uninit();
    let kept = room.as_ptr();
    unsafe { std::ptr::read_volatile(&kept) }; // std::hint::black_box is younger than Debian 12's rustc (1.63)
    let _ = std::io::stdin().read(&mut [0u8; 1]);
}

#[no_mangle]
#[inline(never)]
pub fn handle(ms: u64, hangs: bool) -> u64 {
    std::thread::sleep(std::time::Duration::from_millis(ms));
    if hangs {
        let _ = std::panic::catch_unwind(|| panic!("dealt with here"));
        wait_deep_down();
    } else if ms > 0 {
        panic!("bad request");
    }
    ms + 1
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let hangs = std::env::args().nth(1).is_some();
    println!("ready");
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read(&mut [0u8; 1]);
    for _ in 0..20 {
        let _ = std::panic::catch_unwind(|| handle(1, hangs));
        if hangs {
            break;
        }
    }
    if !hangs {
        wait_deep_down();
    }
    handle(0, false);
    println!("went on");
    let _ = std::io::stdout().flush();
    wait_deep_down();
}
