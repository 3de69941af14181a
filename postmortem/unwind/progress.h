// Says which module is being parsed. It is in memory shared with the parent, so that the parent knows which module to
// blame when the child dies. Internal to unwind/.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

namespace incident::postmortem {

enum class Part : std::uint32_t { file = 0, debug = 1 }; // the mapped ELF file; its debug information

class Progress {
public:
    static constexpr std::uint32_t none = UINT32_MAX;

    explicit Progress(std::atomic<std::uint32_t> *shared = nullptr) : shared_(shared) {}

    // As long as it lives, the child works on a part of a module; then the previous part is restored. If an exception
    // ends it, memory ran out: then nothing is restored, because this part is to blame.
    class Scope {
    public:
        Scope(std::atomic<std::uint32_t> *shared, std::uint32_t what)
            : shared_(shared), before_(shared ? shared->exchange(what) : none) {}
        ~Scope() {
            if (shared_ && std::uncaught_exceptions() == 0)
                shared_->store(before_);
        }
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;

    private:
        std::atomic<std::uint32_t> *shared_;
        std::uint32_t before_;
    };
    Scope parsing(std::size_t module, Part part) const {
        return {shared_, static_cast<std::uint32_t>(module * 2 + static_cast<std::uint32_t>(part))};
    }

private:
    std::atomic<std::uint32_t> *shared_;
};

} // namespace incident::postmortem
