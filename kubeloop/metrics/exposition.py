# SPDX-License-Identifier: Apache-2.0
"""Text writer of metric families: Prometheus' exposition format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from math import isfinite, isnan
from typing import Final, Literal, NamedTuple, TypeAlias

from kubeloop.metrics.help_texts import help_text
from kubeloop.metrics.values import Histogram, Summary

Kind: TypeAlias = Literal["counter", "gauge", "histogram", "summary"]
# Label values in the order of the family's labels, and the value.
Sample: TypeAlias = tuple[Sequence[str], float | Histogram | Summary]

_VALUE_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class MetricDesc(NamedTuple):
    """Description of a family: name, kind, label names, help text (None: the text in `help_texts.tsv`)."""

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    about: str | None = None


def family_lines(desc: MetricDesc, samples: Iterable[Sample]) -> Iterator[str]:
    """Yield the lines of a family: help, type, then the samples in their order, with labels sorted by name."""
    name = desc.name
    about = help_text(name) if desc.about is None else desc.about
    yield f"# HELP {name} {about.translate(_HELP_ESCAPES)}"
    yield f"# TYPE {name} {desc.kind}"
    order = sorted(range(len(desc.labels)), key=desc.labels.__getitem__)
    for values, value in samples:
        if len(values) != len(order):
            raise ValueError(f"{name} has the labels {desc.labels}, not {len(values)} values")
        labels = ",".join(f'{desc.labels[at]}="{values[at].translate(_VALUE_ESCAPES)}"' for at in order)
        if isinstance(value, Histogram):
            yield from _histogram_lines(name, labels, value)
        elif isinstance(value, Summary):
            yield from _summary_lines(name, labels, value)
        else:
            yield f"{name}{_braced(labels)} {format_number(value)}"


def format_number(value: float) -> str:
    """Format a number as Go does: no point if it is whole, an exponent from a million on and below 0.0001."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    if abs(value) < 1_000_000:
        return str(int(value)) if value == int(value) else repr(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:]))
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}{'.' if fraction else ''}{fraction}e+{int(exponent) + len(fraction):02d}"


def _histogram_lines(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    running = 0
    before = f"{labels}," if labels else ""
    for bound, count in zip((*map(format_number, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        running += count
        yield f'{name}_bucket{{{before}le="{bound}"}} {running}'
    yield f"{name}_sum{_braced(labels)} {format_number(histogram.total)}"
    yield f"{name}_count{_braced(labels)} {running}"


def _summary_lines(name: str, labels: str, summary: Summary) -> Iterator[str]:
    before = f"{labels}," if labels else ""
    for share, value in zip(summary.quantiles, summary.values(), strict=True):
        yield f'{name}{{{before}quantile="{format_number(share)}"}} {format_number(value)}'
    yield f"{name}_sum{_braced(labels)} {format_number(summary.total)}"
    yield f"{name}_count{_braced(labels)} {summary.count}"


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""
