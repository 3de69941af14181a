"""greenlets.py early|late: two greenlets are in sqlite3_step at the same time and leave it in the order in which they
entered.  greenlet is imported at once, or when a line comes."""

import sqlite3
import sys

if sys.argv[1] == "early":
    import greenlet

for line in ("ready", "seen"):
    print(line, flush=True)
    sys.stdin.readline()
import greenlet  # noqa: E402

answers = []


def query(number):
    connection = sqlite3.connect(":memory:")

    def called_back(value):
        both[1 - number].switch()
        return value + 1

    connection.create_function("other", 1, called_back)
    answers.append(connection.execute("select other(?)", (10 * number,)).fetchone()[0])
    both[1 - number].switch()


both = [greenlet.greenlet(lambda number=number: query(number)) for number in range(2)]
both[0].switch()
print("answers", *answers, flush=True)
