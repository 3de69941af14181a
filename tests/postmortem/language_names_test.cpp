// Names that OCaml's compiler and GHC made of those in a source.
#include "postmortem/unwind/language_names.h"

#include "postmortem/unwind/analyse.h"
#include "unwind_lab.h"

#include <gtest/gtest.h>

namespace incident::postmortem::test {

TEST(LanguageNames, OfOcaml) {
    EXPECT_EQ(ocaml_function_name("camlMain__handle_270"), "Main.handle");
    EXPECT_EQ(ocaml_function_name("camlMain__fun_245"), "Main.fun");
    EXPECT_EQ(ocaml_function_name("camlDune__exe__Main__handle_270"), "Dune.exe.Main.handle");
    EXPECT_EQ(ocaml_function_name("camlStdlib__List__fold_left_12"), "Stdlib.List.fold_left");
    EXPECT_EQ(ocaml_function_name("camlMain__deep$27_81"), "Main.deep'");
    EXPECT_EQ(ocaml_function_name("camlMain__$2b$2b$2b_83"), "Main.+++");
    EXPECT_EQ(ocaml_function_name("camlStdlib__$40_197"), "Stdlib.@");
    EXPECT_EQ(ocaml_function_name("camlMain__handle_270_code"), "Main.handle");
    EXPECT_EQ(ocaml_function_name("camlMain__handle_1_270"), "Main.handle_1");
    // from 5.1 on
    EXPECT_EQ(ocaml_function_name("camlMain.fun_123"), "Main.fun");
    EXPECT_EQ(ocaml_function_name("camlDune__exe__Main.handle_270"), "Dune.exe.Main.handle");
    EXPECT_EQ(ocaml_function_name("camlMain.a__b_1"), "Main.a__b");
    EXPECT_EQ(ocaml_function_name("camlMain._a_1"), "Main._a");
    EXPECT_EQ(ocaml_function_name("camlMy__unit.f_1"), "My__unit.f");
    for (const char *none : {"",
                             "caml",
                             "caml_main",
                             "caml_call_gc",
                             "camlMain",
                             "camlMain__entry",
                             "camlMain__code_begin",
                             "camlMain__1",
                             "camlMain__frametable",
                             "camlMain__f",
                             "camlMain_f_1",
                             "camlMain__f__g_1",
                             "camlMain___f_1",
                             "camlMain__F_1",
                             "camlMain__f$2_1",
                             "camlMain__f$zz_1",
                             "camlMain__f$0a_1",
                             "camlMain__f$ff_1",
                             "camlMain__f-g_1",
                             "camlMain.1_2",
                             "camlMain._1",
                             "camlMain.f.g_1",
                             "camlMa-in.f_1",
                             "camlA__exe__B__f_1",
                             "Main__f_1",
                             "camlmain__f_1",
                             "caml_1",
                             "caml__f_1",
                             "camlMain__code_1_code_code"})
        EXPECT_EQ(ocaml_function_name(none), "") << none;
    EXPECT_EQ(ocaml_function_name("camlMain__" + std::string(8192, 'f') + "_1"), "");
}

TEST(LanguageNames, OfHaskell) {
    EXPECT_EQ(haskell_function_name("base_GHCziBase_zpzp_info"), "base:GHC.Base.++");
    EXPECT_EQ(haskell_function_name("base_GHCziBase_map_closure"), "base:GHC.Base.map");
    EXPECT_EQ(haskell_function_name("Main_main_info"), "Main.main");
    EXPECT_EQ(haskell_function_name("ZCMain_main_closure"), ":Main.main");
    EXPECT_EQ(haskell_function_name("Main_zdwgo_slow"), "Main.$wgo");
    EXPECT_EQ(haskell_function_name("Main_fzuzq_fast"), "Main.f_'");
    EXPECT_EQ(haskell_function_name("ghczmprim_GHCziTypes_ZC_con_info"), "ghc-prim:GHC.Types.:");
    EXPECT_EQ(haskell_function_name("ghczmprim_GHCziTuple_Z0T_con_info"), "ghc-prim:GHC.Tuple.()");
    EXPECT_EQ(haskell_function_name("ghczmprim_GHCziTuple_Z3T_con_info"), "ghc-prim:GHC.Tuple.(,,)");
    EXPECT_EQ(haskell_function_name("ghczmprim_GHCziPrim_Z1H_info"), "ghc-prim:GHC.Prim.(# #)");
    EXPECT_EQ(haskell_function_name("ghczmprim_GHCziPrim_Z2H_info"), "ghc-prim:GHC.Prim.(#,#)");
    EXPECT_EQ(haskell_function_name("ghczmprim_GHCziTypes_ZMZN_closure"), "ghc-prim:GHC.Types.[]");
    EXPECT_EQ(haskell_function_name("textzm1zi2zi4zi1_DataziText_zlzgze_entry"), "text-1.2.4.1:Data.Text.<>=");
    EXPECT_EQ(haskell_function_name("Main_z3b1U_info"), "Main.α");
    EXPECT_EQ(haskell_function_name("Main_z0e9U_info"), "Main.é");
    EXPECT_EQ(haskell_function_name("Main_z1f600U_info"), "Main.😀");
    for (const char *none : {"",
                             "_",
                             "info",
                             "_info",
                             "__info",
                             "Main_info",
                             "main_loop_info",
                             "get_cpu_info",
                             "stg_upd_frame_info",
                             "stg_ap_pp_fast",
                             "Main_main",
                             "Main__info",
                             "Main_f_s1a_g_info",
                             "base_GHCziBase_zy_info",
                             "Main_fz_info",
                             "Main_fZ_info",
                             "Main_z3b1_info",
                             "Main_z07U_info",
                             "Main_z0d800U_info",
                             "Main_z110000U_info",
                             "Main_z0ffffffffffffU_info",
                             "Main_Z1T_info",
                             "Main_Z0H_info",
                             "Main_Z65T_info",
                             "Main_Z2_info",
                             "Main_Z2X_info",
                             "base_ghcziBase_map_info",
                             "base_GHCzi_map_info",
                             "Main_f.g_info",
                             "ba.se_Main_f_info",
                             "basezh_Main_f_info"})
        EXPECT_EQ(haskell_function_name(none), "") << none;
    EXPECT_EQ(haskell_function_name("Main_" + std::string(8192, 'f') + "_info"), "");
}

// The same names in files that have, and have not, something of the language's runtime in them.
TEST(LanguageNames, AreTakenForThatOnlyInFilesOfTheLanguage) {
    constexpr std::string_view program = R"(
#ifdef RUNTIME
void caml_start_program(void) {}
void hs_main(void) {}
#endif
__attribute__((noinline)) int base_GHCziBase_zpzp_info(volatile int *p) { return *p + 1; }
__attribute__((noinline)) int camlMain__handle_270(volatile int *p) { return base_GHCziBase_zpzp_info(p) + 1; }
int main(void) { return camlMain__handle_270(0) + 1; }
)";
    UnwindLab lab;
    AnalyseOptions options;
    options.install_hints = false;
    const auto names = [&](const std::string &name, const std::string &flags) {
        const Crash crash = lab.crash(lab.compile(name, std::string(program), flags));
        std::vector<std::string> symbols;
        const Analysis analysis = analyse(crash.image, open_module_files(crash.image), options, nullptr);
        for (const Frame &frame : analysis.threads.at(0).frames)
            symbols.push_back(frame.symbol);
        symbols.resize(2);
        return symbols;
    };
    EXPECT_EQ(names("theirs", "-O1 -DRUNTIME"), (std::vector<std::string>{"base:GHC.Base.++", "Main.handle"}));
    EXPECT_EQ(names("others", "-O1"), (std::vector<std::string>{"base_GHCziBase_zpzp_info", "camlMain__handle_270"}));
}

} // namespace incident::postmortem::test
