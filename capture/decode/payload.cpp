#include "capture/decode/payload.h"

#include "capture/decode/decode_text.h"

#include <string>

namespace incident::capture {

void show_payload(DecodedCall &call, std::string_view text, bool whole) {
    if (call.args.size() < 2)
        return;
    std::string shown = quoted(text) + (whole ? "" : "…");
    std::string &argument = call.args[1];
    if (call.name == "writev" || call.name == "readv") {
        argument = '[' + shown + ']';
    } else if (call.name == "sendmsg" || call.name == "recvmsg") {
        const bool with_address = argument.starts_with("{msg_name=") && argument.ends_with('}');
        const std::string before = with_address ? argument.substr(0, argument.size() - 1) + ", " : "{";
        argument = before + "msg_iov=[" + shown + "]}";
    } else {
        argument = std::move(shown);
    }
}

} // namespace incident::capture
