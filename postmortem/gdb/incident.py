"""gdb commands that show an incident bundle beside its core: `source` this file, or see `help incident` after.

Three ways lead here:
  incidentctl gdb ID                        with nothing to set up
  gdb -x BUNDLE/gdb/open.gdb                with nothing installed: the bundle holds these files
  (gdb) source /usr/share/incidentd/gdb/incident.py
                                            the environment variable INCIDENT_BUNDLE names the bundle

The other files of this directory are one package.  They are found from this file's own place, not through
sys.path: nothing else in gdb's Python changes, and a bundle of another version can be loaded after this one.

Whatever stands in a bundle was written by the process that died, or by whoever sent the bundle: every text
is escaped before it is printed.
"""


def incident_load(place):
    import importlib
    import sys
    import types

    name = "incident_gdb"
    for loaded in [module for module in sys.modules if module == name or module.startswith(name + ".")]:
        del sys.modules[loaded]
    package = types.ModuleType(name)
    package.__path__ = [place]
    sys.modules[name] = package
    # A bundle stays as it was written: no __pycache__ in it.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(name + ".start")
    finally:
        sys.dont_write_bytecode = before


incident_load(__import__("os").path.dirname(__import__("os").path.abspath(__file__))).start(
    globals().get("incident_opening", False)  # open.gdb: the program and core are to be loaded as well
)
del incident_load
