// fatal KIND: ways in which Go's runtime itself ends a program.  With GOTRACEBACK=crash it dies of SIGABRT.
package main

import (
	"fmt"
	"os"
	"sync"
)

//go:noinline
func deadlock() {
	var lock sync.Mutex
	lock.Lock()
	lock.Lock()
}

//go:noinline
func unlock() {
	var lock sync.Mutex
	lock.Unlock()
}

//go:noinline
func concurrent() {
	table := map[int]int{}
	for {
		go func() {
			for i := 0; ; i++ {
				table[i&7] = i
			}
		}()
	}
}

//go:noinline
func recurse(depth int) int { return recurse(depth+1) + 1 }

func main() {
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	switch os.Args[1] {
	case "deadlock":
		deadlock()
	case "unlock":
		unlock()
	case "concurrent":
		concurrent()
	case "recurse":
		fmt.Println(recurse(1))
	}
}
