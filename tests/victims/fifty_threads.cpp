// A C++ program of fifty threads: half work on a shared queue, half wait for a condition
// that never comes.  A worker then follows a dangling null deep inside its own frames.
// Prints `tid` of each thread, and `crash TID` of the one that dies.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <latch>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

constexpr int THREADS = 49; // and the first one

struct Order {
    int number;
    Order *next;
};

std::mutex queue_lock;
std::condition_variable never;
std::deque<Order> queue;
std::latch everyone_is_there(THREADS);

[[gnu::noinline]] int settle(const Order *order)
{
    return order->next->number; // the last order has none
}

[[gnu::noinline]] int process(const Order &order, int depth)
{
    return depth > 0 ? process(order, depth - 1) + 1 : settle(&order);
}

void wait_for_ever()
{
    std::unique_lock hold(queue_lock);
    std::printf("%d\n", gettid());
    everyone_is_there.count_down();
    never.wait(hold, [] { return false; });
}

void work(bool crashes)
{
    {
        std::lock_guard hold(queue_lock);
        std::printf("%d\n", gettid());
    }
    if (crashes) {
        everyone_is_there.arrive_and_wait();
        std::lock_guard hold(queue_lock);
        std::printf("crash %d\n", gettid());
        std::fflush(stdout);
        std::exit(process(Order{1, nullptr}, 5));
    }
    everyone_is_there.count_down();
    for (int number = 0;; number++) {
        std::lock_guard hold(queue_lock);
        queue.push_back({number, nullptr});
        if (queue.size() > 100)
            queue.pop_front();
    }
}

} // namespace

int main()
{
    std::printf("%d\n", gettid());
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back([i] { i % 2 ? wait_for_ever() : work(i == THREADS - 1); });
    for (auto &thread : threads)
        thread.join();
}
