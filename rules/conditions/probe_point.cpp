#include "rules/conditions/probe_point.h"

#include "rules/text/escape.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace incident::rules {

const std::string probe_forms =
    R"(probes are written "uprobe:/path/of/binary:function" or "usdt:/path/of/binary:provider:name")";

namespace {

constexpr std::size_t longest_probe = 4096 + 1024; // PATH_MAX and a demangled name
constexpr std::uint64_t largest_offset = 1ull << 31;

bool is_usdt_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// Forms that bpftrace and perf know but rules do not have.
const char *hint_of_type(std::string_view type) {
    if (type == "uretprobe")
        return R"(the return is waited for by itself: probe = "uprobe:...")";
    if (type == "kprobe" || type == "kretprobe" || type == "fentry" || type == "fexit")
        return "functions of the kernel are not probed; on = \"tracepoint\" sees its tracepoints";
    if (type == "tracepoint" || type == "t")
        return R"(write on = "tracepoint" and tracepoint = "category:name")";
    return nullptr;
}

class ProbeParser {
public:
    explicit ProbeParser(std::string_view text) : text_(text) {}

    std::expected<ProbePoint, ProbeError> run() {
        if (text_.empty() || text_.size() > longest_probe)
            return fail(0, text_.size(), text_.empty() ? "the probe is empty" : "the probe is too long", probe_forms);
        for (std::size_t i = 0; i < text_.size(); ++i)
            if (static_cast<unsigned char>(text_[i]) < 0x20 || text_[i] == 0x7F)
                return fail(i, 1, "a control character in the probe", "");
        const std::size_t colon = text_.find(':');
        const std::string_view type = text_.substr(0, std::min(colon, text_.size()));
        if (type != "uprobe" && type != "usdt") {
            const char *better = hint_of_type(type);
            return fail(0, type.size(), fmt::format("unknown kind of probe {}", quote(type)),
                        better != nullptr ? better : probe_forms);
        }
        const std::size_t binary = colon == std::string_view::npos ? text_.size() : colon + 1;
        const std::size_t end = std::min(text_.find(':', binary), text_.size());
        point_.text = text_;
        if (auto error = read_binary(binary, end))
            return std::unexpected(std::move(*error));
        const std::size_t rest = std::min(end + 1, text_.size());
        point_.kind = type == "usdt" ? ProbePoint::Kind::Usdt : ProbePoint::Kind::Uprobe;
        auto error = type == "usdt" ? read_usdt(rest) : read_symbol(rest);
        if (error)
            return std::unexpected(std::move(*error));
        return std::move(point_);
    }

private:
    using Problem = std::optional<ProbeError>;

    static std::unexpected<ProbeError> fail(std::size_t at, std::size_t length, std::string message, std::string hint) {
        return std::unexpected(ProbeError{at, std::max<std::size_t>(length, 1), std::move(message), std::move(hint)});
    }
    static Problem problem(std::size_t at, std::size_t length, std::string message, std::string hint = "") {
        return ProbeError{at, std::max<std::size_t>(length, 1), std::move(message), std::move(hint)};
    }

    Problem read_binary(std::size_t begin, std::size_t end) {
        const std::string_view binary = text_.substr(begin, end - begin);
        if (binary.empty())
            return problem(begin, 0, "the probe has no binary", probe_forms);
        if (binary.find_first_of("*?[") != std::string_view::npos)
            return problem(begin, binary.size(), "a probe is in one binary: patterns are not taken here",
                           "'match' says which of its processes are meant");
        if (binary[0] != '/' && binary.find('/') != std::string_view::npos)
            return problem(begin, binary.size(), fmt::format("{} is not an absolute path", quote(binary)),
                           "write the whole path, or the bare name of a library: \"libc.so.6\"");
        if (binary.ends_with('/'))
            return problem(begin, binary.size(), fmt::format("{} is a directory", quote(binary)));
        point_.binary = binary;
        return std::nullopt;
    }

    Problem read_usdt(std::size_t begin) {
        const std::string_view rest = text_.substr(begin);
        const std::size_t colon = rest.find(':');
        const std::string_view provider = rest.substr(0, std::min(colon, rest.size()));
        const std::string_view name = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
        if (provider.empty() || name.empty())
            return problem(provider.empty() ? begin : text_.size(), 0,
                           provider.empty() ? "the probe has no provider" : "the probe has no name",
                           "usdt probes are written \"usdt:/path/of/binary:provider:name\"; 'readelf -n' lists them");
        for (std::size_t i = 0; i < rest.size(); ++i)
            if (!is_usdt_character(rest[i]) && i != colon)
                return problem(begin + i, 1,
                               fmt::format("unexpected {} in the probe's name", quote(rest.substr(i, 1))));
        point_.provider = provider;
        point_.name = name;
        return std::nullopt;
    }

    // A demangled name may hold anything, even '+': "operator+(a const&, int)".
    Problem read_symbol(std::size_t begin) {
        std::string_view symbol = text_.substr(begin);
        if (symbol.empty())
            return problem(text_.size(), 0, "the probe has no function", probe_forms);
        const std::size_t plus = symbol.rfind('+');
        const std::string_view tail = plus == std::string_view::npos ? std::string_view() : symbol.substr(plus + 1);
        const bool of_name = plus == std::string_view::npos || symbol.substr(0, plus).ends_with("operator") ||
                             symbol.substr(0, plus).ends_with("operator+") ||
                             tail.find_first_of(") ") != std::string_view::npos;
        if (!of_name) {
            if (tail.empty())
                return problem(text_.size(), 0, "the offset is missing behind '+'",
                               "an offset is a number of bytes: function+0x1f");
            const auto offset = number(tail);
            if (!offset || *offset > largest_offset)
                return problem(begin + plus + 1, tail.size(), fmt::format("{} is not an offset", quote(tail)),
                               "an offset is a number of bytes: function+0x1f");
            point_.offset = *offset;
            symbol = symbol.substr(0, plus);
        }
        if (symbol.empty())
            return problem(begin, 0, "the probe has no function", "an offset counts from a function: main+0x1f");
        if (symbol.find_first_of("*?") != std::string_view::npos &&
            symbol.find_first_of("(<") == std::string_view::npos && symbol.find("operator") == std::string_view::npos)
            return problem(begin, symbol.size(), "a probe is one function: patterns are not taken here");
        if (symbol.find_first_not_of("0123456789") == std::string_view::npos || symbol.starts_with("0x"))
            return problem(begin, symbol.size(), fmt::format("{} is not a function", quote(symbol)),
                           "addresses are written function+offset");
        point_.symbol = symbol;
        return std::nullopt;
    }

    static std::optional<std::uint64_t> number(std::string_view text) {
        const bool hex = text.starts_with("0x");
        text.remove_prefix(hex ? 2 : 0);
        std::uint64_t value = 0;
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
        if (problem != std::errc() || end != text.data() + text.size())
            return std::nullopt;
        return value;
    }

    std::string_view text_;
    ProbePoint point_;
};

} // namespace

std::expected<ProbePoint, ProbeError> parse_probe(std::string_view text) {
    return ProbeParser(text).run();
}

} // namespace incident::rules
