// shapes KIND: as shapes.c, of what Go does.  With GOTRACEBACK=crash it dies of SIGABRT.
package main

import (
	"fmt"
	"os"
	"time"
)

type item struct {
	kind, other, value int
}

var nothing *item
var table map[string]int

//go:noinline
func null() int { return nothing.value + 1 }

//go:noinline
func index(numbers []int, at int) int { return numbers[at] + 1 }

//go:noinline
func assign() int { table["x"] = 1; return 1 }

//go:noinline
func says() int { panic(fmt.Sprintf("it went wrong at %d", 7)) }

//go:noinline
func divide(by int) int { return 7 / by }

//go:noinline
func recurse(depth int) int { return recurse(depth+1) + 1 }

//go:noinline
func inGoroutine() int {
	go func() { println(null()) }()
	time.Sleep(10 * time.Second)
	return 1
}

//go:noinline
func inner(kind string) int {
	switch kind {
	case "null":
		return null() + 1
	case "index":
		return index([]int{1, 2, 3}, len(kind)) + 1
	case "assign":
		return assign() + 1
	case "says":
		return says() + 1
	case "divide":
		return divide(len(kind)-6) + 1
	case "recurse":
		return recurse(1) + 1
	case "in-goroutine":
		return inGoroutine() + 1
	}
	return 0
}

//go:noinline
func outer(kind string, more int) int {
	if more > 0 {
		return outer(kind, more-1) + 1
	}
	return inner(kind) + 2
}

func main() {
	fmt.Println("ready")
	if len(os.Args) > 2 {
		os.Stdin.Read(make([]byte, 1))
	}
	os.Exit(outer(os.Args[1], 3) & 1)
}
