// The format files of tracefs, filters that people write for them, and records whose texts a process chooses.
#include "rules/filter/filter.h"
#include "tests/fuzz/target.h"

#include <cstring>

namespace incident::fuzz {
namespace {

using namespace rules;

// As the kernel side tests a clause (bpf/): a field beyond the record's end does not hold.
bool clause_holds(const FilterClause &clause, std::string_view record) {
    if (clause.offset > record.size() || clause.size > record.size() - clause.offset)
        return false;
    if (clause.is_prefix)
        return record.substr(clause.offset, clause.size) == clause.prefix;
    std::uint64_t bits = 0;
    std::memcpy(&bits, record.data() + clause.offset, clause.size);
    const unsigned unused = 64 - clause.size * 8;
    const auto value = static_cast<std::int64_t>(bits << unused) >> unused;
    const auto compare = [&](auto field, auto number) {
        switch (clause.op) {
        case Filter::Op::Equal:
            return field == number;
        case Filter::Op::NotEqual:
            return field != number;
        case Filter::Op::Less:
            return field < number;
        case Filter::Op::LessEqual:
            return field <= number;
        case Filter::Op::Greater:
            return field > number;
        case Filter::Op::GreaterEqual:
            return field >= number;
        case Filter::Op::Bits:
            return (field & number) != 0;
        default:
            return true;
        }
    };
    return clause.is_signed ? compare(value, clause.number) : compare(bits, static_cast<std::uint64_t>(clause.number));
}

} // namespace

// The format, the filter, the record.
FUZZ_TARGET(tracepoint) {
    const auto parts = parts_of(input);
    const TracepointFormat format = parse_tracepoint_format(parts[0]);
    const std::string_view record = parts.size() > 2 ? parts[2] : "";
    must_be_harmless(describe_record(format, bytes_of(record)), "a record's description can be printed");
    if (parts.size() < 2)
        return;
    const auto parsed = parse_filter(parts[1]);
    if (!parsed) {
        must(parsed.error().at <= parts[1].size(), "a filter's error is within its text");
        return;
    }
    must(!holds(*parsed, bytes_of(record)), "an unchecked filter never holds");
    const auto checked = check_filter(*parsed, parts[1], format);
    if (!checked) {
        must(checked.error().at <= parts[1].size(), "a filter's error is within its text");
        return;
    }
    const bool held = holds(*checked, bytes_of(record));
    for (const FilterClause &clause : necessary_clauses(*checked, 6))
        must(!held || clause_holds(clause, record), "what the kernel tests is necessary for the filter to hold");
}

} // namespace incident::fuzz
