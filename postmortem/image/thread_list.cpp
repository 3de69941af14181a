#include "postmortem/image/thread_list.h"

#include "postmortem/image/elf_symbols.h"
#include "postmortem/image/object_bytes.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <map>
#include <set>

namespace incident::postmortem {

namespace {

constexpr std::uint32_t descriptor_max = 64u << 10; // bytes of a struct pthread; glibc 2.36 has 2304

struct ListNode { // list_t, include/list_t.h
    std::uint64_t next = 0, previous = 0;
};

// The offsets in glibc's structures, found in the same way as libthread_db does.
struct ThreadLayout {
    std::uint32_t size = 0, list = 0, tid = 0; // of struct pthread, and offsets in it; bytes
    UserAddress used, user;                    // the heads of its two lists
    std::optional<MadeMemory> pointer;         // in libc, to where ld.so has them
};

template <typename T> void put(std::string &bytes, std::size_t at, const T &object) {
    std::memcpy(bytes.data() + at, &object, sizeof object);
}

// Symbols of one module, and the constants they name.
class Constants {
public:
    Constants(const LoadedElf &elf, const std::vector<std::string_view> &names)
        : elf_(elf), symbols_(find_symbols(elf.file, names)) {}

    std::optional<UserAddress> address(std::string_view name) const {
        const auto found = symbols_.find(name);
        return found == symbols_.end() ? std::nullopt : std::optional(found->second + elf_.bias);
    }
    // Word i of it, in the file.
    std::optional<std::uint32_t> word(std::string_view name, std::size_t i) const {
        const auto found = symbols_.find(name);
        if (found == symbols_.end())
            return std::nullopt;
        const LinkAddress at = found->second + i * sizeof(std::uint32_t);
        for (const ElfSegment &segment : elf_.layout.segments) {
            std::uint32_t value;
            if (segment.type == PT_LOAD && at >= segment.address && at - segment.address < segment.file_size &&
                elf_.file((segment.offset + (at - segment.address)).value,
                          {reinterpret_cast<char *>(&value), sizeof value}))
                return value;
        }
        return std::nullopt;
    }
    // DB_STRUCT_FIELD's constants are {size in bits, number of elements, offset}.
    std::optional<std::uint32_t> offset(std::string_view name) const { return word(name, 2); }

private:
    const LoadedElf &elf_;
    std::map<std::string, LinkAddress, std::less<>> symbols_;
};

const LoadedElf *libc_of(const CrashImage &image, const LoadedModules &modules) {
    for (std::size_t i = 0; i < image.modules.size(); ++i)
        if (image.modules[i].path.ends_with("/libc.so.6") && modules.all()[i] && modules.all()[i]->file)
            return &*modules.all()[i];
    return nullptr;
}

const LoadedElf *loader_of(const CrashImage &image, const LoadedModules &modules) {
    const ImageModule *module = image.module_at(modules.loader_address());
    if (!module)
        return nullptr;
    const auto &elf = modules.all()[module - image.modules.data()];
    return elf && elf->file ? &*elf : nullptr;
}

std::optional<ThreadLayout> thread_layout(const CrashImage &image, const LoadedModules &modules) {
    const LoadedElf *libc = libc_of(image, modules), *loader = loader_of(image, modules);
    const LoadedElf *program = modules.executable_elf();
    const bool is_static = !libc;
    if (is_static ? !program || !program->file : !loader)
        return std::nullopt;
    const Constants known(is_static ? *program : *libc,
                          {"_thread_db_sizeof_pthread", "_thread_db_pthread_list", "_thread_db_pthread_tid",
                           "_thread_db_list_t_next", "_thread_db_list_t_prev", "_thread_db_rtld_global__dl_stack_used",
                           "_thread_db_rtld_global__dl_stack_user", "__nptl_rtld_global", "_dl_stack_used",
                           "_dl_stack_user"});
    const auto size = known.word("_thread_db_sizeof_pthread", 0);
    const auto list = known.offset("_thread_db_pthread_list"), tid = known.offset("_thread_db_pthread_tid");
    if (!size || !list || !tid || *size > descriptor_max || *list > *size - std::min<std::uint32_t>(*size, 16) ||
        *tid > *size - std::min<std::uint32_t>(*size, 4) || *size < 24 ||
        known.offset("_thread_db_list_t_next") != offsetof(ListNode, next) ||
        known.offset("_thread_db_list_t_prev") != offsetof(ListNode, previous))
        return std::nullopt;
    ThreadLayout layout{*size, *list, *tid, {}, {}, {}};
    if (is_static) {
        layout.used = known.address("_dl_stack_used").value_or(UserAddress());
        layout.user = known.address("_dl_stack_user").value_or(UserAddress());
    } else {
        const auto global = Constants(*loader, {"_rtld_global"}).address("_rtld_global");
        const auto pointer = known.address("__nptl_rtld_global");
        const auto used = known.offset("_thread_db_rtld_global__dl_stack_used");
        const auto user = known.offset("_thread_db_rtld_global__dl_stack_user");
        if (!global || !pointer || !used || !user)
            return std::nullopt;
        layout.used = *global + *used;
        layout.user = *global + *user;
        layout.pointer = {*pointer, bytes_of(*global)};
    }
    return layout.used.value && layout.user.value ? std::optional(layout) : std::nullopt;
}

// Two circular lists as far as captured threads show them, completed.
class Lists {
public:
    explicit Lists(const ThreadLayout &layout) : used_(layout.used.value), user_(layout.user.value) {}

    void add(std::uint64_t node) { nodes_.insert(node); }
    // False: contradicts what is known.
    bool link(std::uint64_t from, std::uint64_t to) {
        return next_.emplace(from, to).first->second == to && previous_.emplace(to, from).first->second == from;
    }
    // False: a pointer leads to what is no thread (one that has exited and was not joined), or in a circle.
    // Else each thread without a known place gets one: the main thread, whose stack is not glibc's, in
    // one list, the others in the other.
    bool complete(std::uint64_t main) {
        auto known = [&](std::uint64_t node) { return node == used_ || node == user_ || nodes_.contains(node); };
        for (const auto &[from, to] : next_)
            if (!known(from) || !known(to))
                return false;
        std::size_t reached = 0;
        std::uint64_t used_end = end_from(used_, reached), user_end = end_from(user_, reached);
        for (std::uint64_t node : nodes_) {
            std::uint64_t &end = node == main ? user_end : used_end;
            if (previous_.contains(node) || !link(end, node))
                continue;
            ++reached;
            end = end_from(node, reached);
        }
        return link(used_end, used_) && link(user_end, user_) && reached == nodes_.size();
    }
    ListNode at(std::uint64_t node) const { return {next_.at(node), previous_.at(node)}; }

private:
    // The last of a list that node is in; counts those behind node.
    std::uint64_t end_from(std::uint64_t node, std::size_t &reached) const {
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            const auto next = next_.find(node);
            if (next == next_.end() || next->second == used_ || next->second == user_)
                break;
            node = next->second;
            ++reached;
        }
        return node;
    }

    const std::uint64_t used_, user_; // the heads
    std::set<std::uint64_t> nodes_;
    std::map<std::uint64_t, std::uint64_t> next_, previous_;
};

struct Descriptor {
    std::uint64_t address = 0;
    std::uint32_t tid = 0;
    bool captured = false;
};

// The addresses of the struct pthread of glibc's threads. Other threads (made with a bare clone(2)) share one or have
// none.
std::vector<Descriptor> descriptors_of(const CrashImage &image, const ThreadLayout &layout) {
    std::map<std::uint64_t, Descriptor> all; // by address
    std::string bytes(layout.size, '\0');
    for (const ImageThread &thread : image.threads) {
        const std::uint64_t address = thread.registers ? thread.registers->fs_base : 0;
        if (address == 0 || address % alignof(std::uint64_t) != 0 || address > UINT64_MAX - layout.size)
            continue;
        Descriptor descriptor{address, thread.tid, image.memory.read(address, bytes) == bytes.size()};
        std::uint32_t tid;
        std::memcpy(&tid, bytes.data() + layout.tid, sizeof tid);
        // of those that share one it is the one's whose id it has
        if (!all.contains(address) || (descriptor.captured && tid == thread.tid))
            all.insert_or_assign(address, descriptor);
    }
    std::vector<Descriptor> descriptors;
    descriptors.reserve(all.size());
    for (const auto &[address, descriptor] : all)
        descriptors.push_back(descriptor);
    return descriptors;
}

} // namespace

std::optional<ThreadList> make_thread_list(const CrashImage &image, const LoadedModules &modules) {
    const auto layout = thread_layout(image, modules);
    if (!layout)
        return std::nullopt;
    const std::vector<Descriptor> descriptors = descriptors_of(image, *layout);
    Lists lists(*layout);
    std::uint64_t main = 0;
    for (const Descriptor &thread : descriptors) {
        lists.add(thread.address + layout->list);
        if (thread.tid == image.pid)
            main = thread.address + layout->list;
    }
    for (const Descriptor &thread : descriptors) {
        const std::uint64_t node = thread.address + layout->list;
        const auto next = image.memory.word(node), previous = image.memory.word(node + sizeof(std::uint64_t));
        if ((next && !lists.link(node, *next)) || (previous && !lists.link(*previous, node)))
            return std::nullopt;
    }
    if (descriptors.empty() || !lists.complete(main))
        return std::nullopt;
    ThreadList list;
    if (layout->pointer)
        list.pieces.push_back(*layout->pointer);
    for (const UserAddress head : {layout->used, layout->user})
        list.pieces.push_back({head, bytes_of(lists.at(head.value))});
    for (const Descriptor &thread : descriptors) {
        if (thread.captured)
            continue;
        ++list.made_up;
        std::string bytes(layout->size, '\0');
        put(bytes, 0, thread.address); // tcbhead_t: tcb, dtv, self
        put(bytes, 16, thread.address);
        put(bytes, layout->tid, thread.tid);
        put(bytes, layout->list, lists.at(thread.address + layout->list));
        list.pieces.push_back({UserAddress(thread.address), std::move(bytes)});
    }
    return list;
}

} // namespace incident::postmortem
