"""Figures taken side by side: rounds in which every variant has its turn."""

from statistics import median, quantiles


class Sample:
    """What the rounds found, in their order; low and high are the quartiles, of fewer than four the extremes."""

    def __init__(self, values):
        self.values = [float(value) for value in values]
        self.n = len(self.values)
        self.median = median(self.values)
        if self.n < 4:
            self.low, self.high = min(self.values), max(self.values)
        else:
            self.low, _, self.high = quantiles(self.values, n=4, method="inclusive")

    @property
    def spread(self):
        return self.low, self.high


def added(sample, base):
    """What it has over the base, round by round: a machine that drifts drifts for both."""
    return Sample(one - other for one, other in zip(sample.values, base.values, strict=True))


def percent(sample, base):
    """What it leaves of the base, round by round as well."""
    return Sample(100 * one / other for one, other in zip(sample.values, base.values, strict=True))


def ratio(a, b):
    """Of the medians; None where there is nothing to divide by."""
    return a.median / b.median if b.median else None


def alternate(variants, rounds):
    """{name: Sample} of {name: function that measures once}; another one begins each round."""
    found = {name: [] for name in variants}
    names = list(variants)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(variants[name]())
    return {name: Sample(values) for name, values in found.items()}
