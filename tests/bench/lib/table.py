"""A table of figures, for eyes and for programs."""


def shown(cell):
    """Four digits that matter; None is a dash, a pair is a spread."""
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case tuple():
            return " … ".join(map(shown, cell))
        case int():
            return f"{cell:,}"
    size = abs(cell)
    return f"{cell:,.{0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 or size == 0 else 3}f}"


class Table:
    """Rows of cells: text, numbers, (low, high), None."""

    def __init__(self, title, columns, rows, notes=()):
        self.title = title
        self.columns = list(columns)
        self.rows = [list(row) for row in rows]
        self.notes = list(notes)

    def text(self):
        lines = [self.columns, *([shown(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = [f"  {aligned(line, widths)}" for line in lines]
        return "\n".join([self.title, *body, *map("  * {}".format, self.notes)])

    def json(self):
        return {"title": self.title, "columns": self.columns, "rows": self.rows, "notes": self.notes}


def aligned(line, widths):
    """The first column is a name, the others are figures."""
    first, *others = zip(line, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()
