// incidentctl: reads bundles.
#include "postmortem/core/core_find.h"
#include "postmortem/verbs/cli.h"

#include <clocale>
#include <csignal>
#include <unistd.h>

int main(int argc, char **argv) {
    using namespace incident::postmortem;
    signal(SIGPIPE, SIG_IGN); // a pager that was quit is an end of output, not of us
    setlocale(LC_TIME, "");   // NOLINT(concurrency-mt-unsafe): there are no threads yet

    FdOutput out(STDOUT_FILENO), err(STDERR_FILENO);
    Session session{.out = out, .err = err, .find_core = find_in_journal};
    int code = run_command_line({argv + (argc > 0), argv + argc}, session);
    if (const auto written = out.finish(); !written) {
        session.say(written.error().what);
        code = exit_failed;
    }
    return code;
}
