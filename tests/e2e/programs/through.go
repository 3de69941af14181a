// Waits in a system call below functions that a rule may probe.
package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

var seen int

//go:noinline
func hold(depth int) int {
	if depth > 0 {
		seen = hold(depth - 1)
	} else {
		_, _, err := syscall.Syscall(syscall.SYS_PAUSE, 0, 0, 0)
		seen = int(err)
	}
	return seen + 1
}

//go:noinline
func request(depth int) int {
	seen = hold(depth)
	return seen + 1
}

//go:noinline
func finish(result int) int {
	return seen + result
}

func probed(function func(int) int) bool {
	code := **(**uintptr)(unsafe.Pointer(&function))
	for i := uintptr(0); i < 8; i++ {
		if *(*byte)(unsafe.Pointer(code + i)) == 0xcc {
			return true
		}
	}
	return false
}

func init() {
	runtime.LockOSThread() // main.main runs on the process's first thread
}

func main() {
	for waited := 0; len(os.Args) > 2 && !(probed(request) && probed(hold) && probed(finish)); waited++ {
		if waited > 60000 {
			os.Exit(3)
		}
		time.Sleep(time.Millisecond)
	}
	os.Exit(finish(request(2)))
}
