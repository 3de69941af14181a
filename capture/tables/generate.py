#!/usr/bin/env python3
"""Makes C++ tables of syscalls, flags, errnos and signals out of the installed headers.

usage: generate.py build COMPILER SYSCALLS_H|SIGNATURES_TXT OUTPUT_DIR
       generate.py save SYSCALLS_H > signatures.txt

Numbers are never read here: the generated sources name the macros and the compiler fills in
their values.  See flags.txt and shapes.txt for what decides the rest.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
DEPENDENT = {"open_mode": "OpenMode", "clone_flags": "CloneFlags", "fcntl_arg": "FcntlArg",
             "futex_val2": "FutexVal2", "futex_uaddr2": "FutexUaddr2", "futex_val3": "FutexVal3",
             "mremap_new": "MremapNew"}
BITS32 = {"int", "unsigned int", "unsigned", "u32", "__u32", "__s32", "s32", "uint32_t", "pid_t", "uid_t", "gid_t",
          "qid_t", "old_uid_t", "old_gid_t", "key_t", "key_serial_t", "clockid_t", "timer_t", "mqd_t", "rwf_t"}
BITS16 = {"umode_t"}
WIDE = {"loff_t", "u64", "__u64"}  # two registers in a 32-bit call, low half first


def lines(name):
    for line in (HERE / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


# ---- signatures ------------------------------------------------------------


def read_signatures(path):
    """{name: [[parameter, ...], ...]} (several where #ifdefs choose), {restart name: number}"""
    text = pathlib.Path(path).read_text()
    if path.endswith(".txt"):
        signatures, restarts = {}, {}
        for line in text.splitlines():
            fields = line.split("|")
            if line.startswith("errno "):
                _, name, number = line.split()
                restarts[name] = number
            elif line and not line.startswith("#"):
                signatures.setdefault(fields[0], []).append(fields[1:])
        return signatures, restarts
    text = re.sub(r"/\*.*?\*/|__user\b", " ", text, flags=re.S)
    signatures = {}
    for match in re.finditer(r"asmlinkage\s+\w[\w\s]*?\bsys_(\w+)\s*\(([^;{]*)\)\s*;", text):
        parameters = [" ".join(p.replace("*", " * ").split()) for p in match[2].split(",")]
        signatures.setdefault(match[1], []).append([p for p in parameters if p not in ("void", "")])
    errno_h = pathlib.Path(path).with_name("errno.h").read_text()
    return signatures, dict(re.findall(r"#define\s+(ERESTART\w+)\s+(\d+)", errno_h))


def save(path):
    signatures, restarts = read_signatures(path)
    print(f"# Made by generate.py save from {path}")
    print("# Used where no linux-headers package is installed.")
    for name, number in sorted(restarts.items()):
        print("errno", name, number)
    for name, variants in sorted(signatures.items()):
        for parameters in variants:
            print("|".join([name, *parameters]))


def split(parameter):
    """'const char * name' -> ('const char *', 'name'); an unnamed one -> (type, '')"""
    match = re.fullmatch(r"(.*[\s*])(\w+)(\s*\[\])?", parameter)
    if not match or match[2] in ("int", "long", "char", "void", "short") or match[1].strip() in (
            "struct", "const struct", "union", "enum", "const"):
        return parameter, ""
    return match[1].strip() + (" *" if match[3] else ""), match[2]


# ---- preprocessor dumps ----------------------------------------------------


def preprocess(compiler, headers):
    source = "#define _GNU_SOURCE 1\n" + "".join(f"#include <{h}>\n" for h in headers)

    def run(text):
        return subprocess.run([*compiler, "-x", "c++", "-E", "-dD", "-P", "-"], input=text, capture_output=True,
                              text=True, check=True).stdout

    macro = re.compile(r"^#define[ \t]+(\w+)(?:[ \t]+(.*))?$", re.M)  # object-like only
    known = {m[1] for m in macro.finditer(run(""))}
    text = run(source)
    macros = {m[1]: (m[2] or "").strip() for m in macro.finditer(text) if m[1] not in known and m[2]}
    body = re.sub(r"^#.*$", "", text, flags=re.M)
    enums = []
    for match in re.finditer(r"\benum\s*(\w*)\s*\{([^}]*)\}", body):
        constants = [c.split("=")[0].strip() for c in match[2].split(",")]
        enums.append((match[1], [c for c in constants if re.fullmatch(r"\w+", c)]))
    return macros, enums


def chosen(globs, macros, enums):
    names = []
    for glob in globs:
        if glob.startswith("!"):
            names = [n for n in names if not fnmatch.fnmatchcase(n, glob[1:])]
        elif glob.startswith("enum:*"):
            names += next((constants for _, constants in enums if glob[6:] in constants), [])
        elif glob.startswith("enum:"):
            names += next((constants for name, constants in enums if name == glob[5:]), [])
        else:
            # a macro for an address or a text is no number
            names += [n for n, body in macros.items() if fnmatch.fnmatchcase(n, glob)
                      and not re.search(r'\*\)|"|\(void', body) and n not in names]
    unique = list(dict.fromkeys(names))
    # another name of one that is there already
    return [n for n in unique if n == macros.get(n) or macros.get(n) not in unique]


def write_flags(compiler, out):
    units, sets = [], []
    for line in lines("flags.txt"):
        word, *rest = line.split()
        if word == "unit":
            units.append({"name": rest[0], "headers": [], "sets": []})
        elif word == "include":
            units[-1]["headers"] += rest
        elif word == "set":
            units[-1]["sets"].append(rest)
        else:
            sys.exit(f"flags.txt: {line}")
    for unit in units:
        macros, enums = preprocess(compiler, unit["headers"])
        text = "// Made by capture/tables/generate.py.\n"
        text += "".join(f"#include <{h}>\n" for h in unit["headers"])
        text += '\n#include "capture/tables/tables.h"\n\n#include <utility>\n\n'
        text += "namespace incident::capture::tables {\n\n"
        for name, kind, *globs in unit["sets"]:
            names = chosen(globs, macros, enums)
            if not names:
                sys.exit(f"flags.txt: set {name}: the headers define none of {' '.join(globs)}")
            sets.append(name)
            is_flags, _, mask = kind.partition(":")
            text += f"static constexpr auto names_{name} = sorted(std::array{{\n"
            text += "".join(f'    Named{{static_cast<std::uint64_t>({n}), "{n}"}},\n' for n in names)
            text += "});\n"
            text += (f'extern const Set set_{name};\nconst Set set_{name}{{"{name}", '
                     f'{"true" if is_flags == "flags" else "false"}, {mask or 0}, names_{name}}};\n\n')
        text += "} // namespace incident::capture::tables\n"
        write(out / f"flags_{unit['name']}.cpp", text)
    return sets


# ---- syscalls --------------------------------------------------------------


def read_shapes():
    rules = {"arg": [], "alias": {}, "sig": {}, "returns": {}, "class": {}}
    for line in lines("shapes.txt"):
        word, *rest = line.split()
        if word == "arg":
            rules["arg"].append((rest[0].split(","), rest[1].split(","), rest[2]))
        elif word == "alias":
            rules["alias"][rest[0], rest[1]] = rest[2]
        elif word == "sig":
            parameters = line.split(None, 2)[2]
            rules["sig"][rest[0]] = [p for p in parameters.replace("*", " * ").split(", ") if p != "void"]
        elif word in ("returns", "class"):
            rules[word].update(dict.fromkeys(rest[1].split(","), rest[0]))
        else:
            sys.exit(f"shapes.txt: {line}")
    return rules


def shape_of(rules, names, index, kind, name):
    plain = re.sub(r"\b(const|struct|enum|union)\b", "", kind).strip()
    for calls, arguments, shape in rules["arg"]:
        if not any(fnmatch.fnmatchcase(n, c) for n in names for c in calls):
            continue
        for argument in arguments:
            if argument == f"#{index + 1}" or (name and fnmatch.fnmatchcase(name, argument)) or (
                    argument.startswith("type:") and "*" not in kind and fnmatch.fnmatchcase(plain, argument[5:])):
                return shape
    return "ptr" if "*" in kind else "hex"


def signature_of(rules, signatures, table, call):
    """(name in syscalls.h, parameters) or (call, None)"""
    bare = re.sub(r"(_time64|64|32)$", "", call) if table == "32" else call
    for name in (rules["alias"].get((table, call)), call, bare):
        if name in rules["sig"]:
            return name, rules["sig"][name]
        if name in signatures:
            # #ifdef variants: syscalls.h has the one for 32 bits first
            return name, signatures[name][-1 if table == "64" else 0]
    return call, None


def call_row(rules, signatures, sets, table, call):
    signature, parameters = signature_of(rules, signatures, table, call)
    row = [f'.name = "{call}"']
    register, path, arguments = 0, 0, []
    for index, parameter in enumerate(parameters or []):
        kind, name = split(parameter)
        shape = shape_of(rules, (call, signature), index, kind, name)
        plain = kind.replace("const ", "")
        wide = table == "32" and plain in WIDE
        if register + wide >= 6:
            break
        bits = 32 if plain in BITS32 or (table == "32" and not wide) else 16 if plain in BITS16 else 64
        setname = "nullptr"
        if shape.startswith("set:"):
            if shape[4:] not in sets:
                sys.exit(f"shapes.txt: no set {shape[4:]} in flags.txt")
            setname, shape = f"&set_{shape[4:]}", "set"
        if shape == "path" and not path:
            path = register + 1
        arguments.append(f"Argument{{Shape::{DEPENDENT.get(shape, shape.capitalize())}, {register}, {bits}, "
                         f"{'true' if wide else 'false'}, {setname}}}")
        register += 1 + wide
    if parameters is not None:
        row += [".known = true", f".count = {len(arguments)}", f".path = {path}"]
    if call in rules["class"]:
        row.append(f".kind = Class::{rules['class'][call].capitalize()}")
    if call in rules["returns"]:
        row.append(f".returns = Returns::{rules['returns'][call].capitalize()}")
    if arguments:
        row.append(".args = {" + ", ".join(arguments) + "}")
    return f"    table[__NR_{call}] = Call{{{', '.join(row)}}};\n"


def write_calls(compiler, signatures, sets, out):
    rules = read_shapes()
    for table in ("64", "32"):
        header = f"asm/unistd_{table}.h"
        macros, _ = preprocess(compiler, [header])
        calls = [n[5:] for n in macros if n.startswith("__NR_")]
        if len(calls) < 300:
            sys.exit(f"{header}: only {len(calls)} system calls found")
        text = f'// Made by capture/tables/generate.py.\n#include <{header}>\n\n#include "capture/tables/tables.h"\n\n'
        text += "#include <algorithm>\n\nnamespace incident::capture::tables {\n\n"
        text += "".join(f"extern const Set set_{name};\n" for name in sets)
        text += "\nnamespace {\n\nconstexpr int last = std::max({" + ", ".join(f"__NR_{c}" for c in calls) + "});\n\n"
        text += "constexpr std::array<Call, last + 1> fill() {\n    std::array<Call, last + 1> table{};\n"
        text += "".join(call_row(rules, signatures, sets, table, c) for c in calls)
        text += "    return table;\n}\n\nconstexpr std::array<Call, last + 1> table = fill();\n\n} // namespace\n\n"
        text += f"const std::span<const Call> calls{table}{{table}};\n\n}} // namespace incident::capture::tables\n"
        write(out / f"calls{table}.cpp", text)


def write_restarts(restarts, out):
    text = '// Made by capture/tables/generate.py.\n#include "capture/tables/tables.h"\n\n#include <utility>\n\n'
    text += "namespace incident::capture::tables {\n\n"
    text += "static constexpr auto names_restarts = sorted(std::array{\n"
    text += "".join(f'    Named{{{number}, "{name}"}},\n' for name, number in sorted(restarts.items()))
    text += "});\nconst std::span<const Named> restarts{names_restarts};\n\n} // namespace incident::capture::tables\n"
    write(out / "restarts.cpp", text)


def write(path, text):
    path.write_text(text)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "save":
        save(sys.argv[2])
    elif len(sys.argv) == 5 and sys.argv[1] == "build":
        compiler, out = sys.argv[2].split(";"), pathlib.Path(sys.argv[4])
        signatures, restarts = read_signatures(sys.argv[3])
        if len(signatures) < 300 or not restarts:
            sys.exit(f"{sys.argv[3]}: only {len(signatures)} signatures found")
        sets = write_flags(compiler, out)
        write_calls(compiler, signatures, sets, out)
        write_restarts(restarts, out)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
