"""Which allocation an address points into, or just beside, and what became of it."""

from . import heap, heap_words
from .text import integer, printable


def allocation(question):
    known = heap.of_bundle(question.bundle)
    if known is None:
        return
    t_ns = question.bundle.trigger() or integer(known.about, "read_ns") or 0
    words, found = heap_words.Words(known, t_ns), heap.Biography(known, question.address, t_ns)
    if found.where:
        yield "allocation", words.where(found)
        for line in words.lines(found):
            yield "allocation", line
    elif question.faulting or may_be_heap(question):
        yield "allocation", "in no allocation known; " + words.reach()
    for note in known.notes:
        yield "allocation", printable(note)


def may_be_heap(question):
    """Anonymous memory that can be written."""
    found = question.mapping
    return found is not None and not found.is_file and (found.permissions or "").startswith("rw")
