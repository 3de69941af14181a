// goroutines: eight goroutines, on threads they change all the time, call Handle(id, ms); some calls panic, some need a
// bigger stack.  One of the goroutines is slow now and then; it prints what its own clock said, and goes on when told to.
package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

//go:noinline
func deep(n int) int {
	var room [512]byte
	room[n%512] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return deep(n-1) + int(room[n%512])
}

//go:noinline
func Handle(id, ms int) int {
	if id%7 == 3 {
		deep(id % 100)
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	if id%5 == 4 {
		panic("bad request")
	}
	return id + 1
}

func timed(id, ms int) (took time.Duration) {
	start := time.Now()
	defer func() {
		took = time.Since(start)
		recover()
	}()
	Handle(id, ms)
	return time.Since(start)
}

func main() {
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	var all sync.WaitGroup
	var lock sync.Mutex
	for worker := 0; worker < 8; worker++ {
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			for i := 0; i < 40; i++ {
				id := worker*1000 + i
				ms := 1 + id*7919%9
				if worker == 0 && i%10 == 5 {
					ms = 400
				}
				if took := timed(id, ms); took >= 300*time.Millisecond && id%5 != 4 {
					lock.Lock()
					fmt.Println("slow", id, took.Nanoseconds())
					os.Stdin.Read(make([]byte, 1))
					lock.Unlock()
				}
				time.Sleep(time.Duration(id*104729%11) * time.Millisecond)
			}
		}(worker)
	}
	all.Wait()
	fmt.Println("done")
	os.Stdin.Read(make([]byte, 1))
	os.Stdin.Read(make([]byte, 1))
}
