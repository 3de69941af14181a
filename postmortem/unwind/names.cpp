#include "postmortem/unwind/names.h"

namespace incident::postmortem {

std::string type_name_of_typeinfo(std::string_view linkage_name) {
    if (linkage_name.starts_with("_ZTI"))
        linkage_name.remove_prefix(4);
    else if (linkage_name.starts_with('_'))
        return "";
    // A type's mangling alone demangles as such; "*" before it marks a name that is not unique (type_info).
    if (linkage_name.starts_with('*'))
        linkage_name.remove_prefix(1);
    return capture::demangled_type(linkage_name.substr(0, linkage_name.find('@')));
}

} // namespace incident::postmortem
