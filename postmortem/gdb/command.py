"""What the subcommands of `incident` have in common."""

import gdb

from .text import printable


class Subcommand(gdb.Command):
    """name: the word after `incident`; the docstring is gdb's help of it."""

    name = ""

    def __init__(self):
        super().__init__("incident " + self.name, gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        try:
            self.run(argument.strip())
        except gdb.error as error:  # gdb's own, told as such: without Python's "exception" before it
            raise gdb.GdbError(str(error))

    def run(self, argument):
        if argument:
            raise gdb.GdbError("incident %s takes no argument" % self.name)
        self.show()

    def show(self):
        raise NotImplementedError

    def complete(self, line, word):
        words = line.split()
        typed = words.pop() if words and not line[-1:].isspace() else ""
        # gdb replaces word, which starts behind the last of its break characters ('-', '$', '.').
        kept = len(typed) - len(word or "")
        try:
            return [one[kept:] for one in self.candidates(words, typed) if one.startswith(typed)]
        except gdb.GdbError:  # no bundle, or not readable: nothing to offer
            return []

    def candidates(self, before, typed):
        """What may stand behind the words before."""
        return []


def natural(word):
    if not (word.isascii() and word.isdigit()) or len(word) > 18:
        raise gdb.GdbError("'%s' is not a number" % printable(word))
    return int(word)
