# Opens this incident in gdb, with nothing installed and from any directory, wherever the bundle has been moved:
#   gdb -x BUNDLE/gdb/open.gdb
# It loads the program, its core (or the bundle's mini.core), and the `incident` commands.
#
# A gdb script is not told its own path (gdb 13 to 16: no variable, no `info` command has it), and `source` of a
# relative path means the working directory.  But gdb has the script open while it reads it, so /proc knows.  A script
# in Python would know itself as __file__; `gdb -x BUNDLE/gdb/incident.py` is that, for a core you have loaded.
python
def incident_open():
    import os

    # The newest first: another script may have sourced this one.
    for descriptor in sorted(map(int, os.listdir("/proc/self/fd")), reverse=True):
        try:
            directory, name = os.path.split(os.readlink("/proc/self/fd/%d" % descriptor))
        except OSError:
            continue
        path = os.path.join(directory, "incident.py")
        if name == "open.gdb" and os.path.isfile(path):
            os.environ["INCIDENT_BUNDLE"] = os.path.dirname(directory)
            with open(path, encoding="utf-8") as file:
                exec(compile(file.read(), path, "exec"), {"__file__": path, "incident_opening": True})
            return
    print("incident: cannot find out where this script is; load BUNDLE/gdb/incident.py instead")


incident_open()
del incident_open
end
