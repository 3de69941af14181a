// Turns the names that the compilers of OCaml and Haskell give to functions into those of their sources.  Neither marks
// its names as C++ and Rust do: whoever asks must know that the file with the symbol is of that language.
#pragma once

#include <string>
#include <string_view>

namespace incident::postmortem {

// "camlDune__exe__Main__handle_270" and, from OCaml 5.1 on, "camlDune__exe__Main.handle_270" → "Dune.exe.Main.handle".
// "" if it is no function's name of that kind, or may stand for several names.
std::string ocaml_function_name(std::string_view symbol);

// "base_GHCziBase_zpzp_info" → "base:GHC.Base.++".  "" if it is no exported name of GHC's, whole in its z-encoding.
std::string haskell_function_name(std::string_view symbol);

} // namespace incident::postmortem
