#include "daemon/probe/file_looks.h"

#include "capture/collect/collectors.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>

namespace incident::daemon {

std::vector<std::optional<FileAnswer>> ask_all(std::vector<FileQuestion> questions,
                                               std::chrono::milliseconds patience) {
    struct Asking {
        std::mutex mutex;
        std::vector<std::optional<FileAnswer>> answers;
        std::size_t begun = 0;
        bool closed = false; // nobody waits for the rest any more
    };
    if (questions.empty())
        return {};
    const std::size_t count = questions.size();
    auto asking = std::make_shared<Asking>();
    asking->answers.resize(count);
    const auto ran = capture::run_bounded(
        {},
        [asking, questions = std::move(questions)] {
            for (std::size_t i = 0; i < questions.size(); ++i) {
                {
                    const std::lock_guard lock(asking->mutex);
                    if (asking->closed)
                        return;
                    asking->begun = i + 1;
                }
                FileAnswer answer = questions[i]();
                const std::lock_guard lock(asking->mutex);
                if (asking->closed)
                    return;
                asking->answers[i].emplace(std::move(answer));
            }
        },
        capture::Clock::now() + patience, capture::Awaits::File);
    const std::lock_guard lock(asking->mutex);
    asking->closed = true;
    auto answers = std::move(asking->answers);
    if (ran == capture::Ran::Late && asking->begun > 0 && !answers[asking->begun - 1])
        answers[asking->begun - 1].emplace(
            fail(Error{fmt::format("did not answer within {} ms", patience.count()), ETIMEDOUT}));
    return answers;
}

} // namespace incident::daemon
