"""The experiment of fair exposure as a page that needs nothing else: figures, tables, what holds of the findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragtrace.analyze.exposure_experiment import MEASURES, AlphaMeans, ExperimentReport, Mean
from ragtrace.export.charts import Line, Point, line_chart
from ragtrace.exposure import IntervalDifference
from ragtrace.html_page import Html, standalone, tag

__all__ = ["HELD", "NAMES", "alpha_text", "difference_text", "experiment_figures", "experiment_page", "mean_text"]

NAMES: Final = {
    "disparity": "unevenness of exposure (EE-D)",
    "relevance": "exposure where it is deserved (EE-R)",
    "utility": "worth of the answers (EU)",
    "attribution": "places that answers use (EAR)",
    "consumption": "unevenness of what is used (EAE-D)",
}
"""The measures by name, as tables head them."""
HELD: Final = {True: "holds", False: "does not hold", None: "not decided"}

_FIGURES: Final = {
    "disparity-relevance": ("relevance", "What even exposure costs in relevance"),
    "disparity-utility": ("utility", "What even exposure costs the answers"),
    "disparity-attribution": ("attribution", "How much of what is shown is used"),
    "exposure-consumption": ("consumption", "Is even exposure followed by even use?"),
}
_TICKS: Final = tuple((tick / 5, f"{tick / 5:g}") for tick in range(6))
_STYLE: Final = """
body { font: 15px/1.5 system-ui, 'DejaVu Sans', sans-serif; color: #1f2933; max-width: 62em; margin: 2em auto; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #e3e7eb; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; display: block; margin: 1em 0; }
p.note { color: #5f6b76; }
"""


def experiment_figures(report: ExperimentReport) -> dict[str, Html]:
    """The four figures as SVG, by name; each point is an alpha, from even on the left to the order of the scores."""
    return {
        name: line_chart(
            title,
            [
                f"{report.questions:,} questions, {report.samples:,} rankings each; points are alphas "
                f"{', '.join(alpha_text(each.alpha) for each in report.alphas)}",
                "Means with their 95 % intervals over the questions",
            ],
            x_label=NAMES["disparity"],
            y_label=NAMES[measure],
            series=[Line(f"by {report.by}", tuple(_points(report.alphas, measure)))],
            x_ticks=_TICKS,
            y_range=(0.0, 1.0),
        )
        for name, (measure, title) in _FIGURES.items()
    }


def _points(alphas: Sequence[AlphaMeans], measure: str) -> list[Point]:
    pairs = ((each.means["disparity"].value, each.means[measure]) for each in alphas)
    found = [Point(x, y.value, y.low, y.high) for x, y in pairs if x is not None and y.value is not None]
    return sorted(found, key=lambda point: point.x)


def experiment_page(report: ExperimentReport) -> str:
    """The whole page."""
    title = "Fair exposure: the experiment"
    body = [tag("h1", title), tag("p", _what(report))]
    if not report.questions:
        return standalone(title, _STYLE, *body, tag("p", "No question could be counted."))
    body += [
        tag("h2", "What holds of the findings of “Towards Fair RAG” here"),
        tag(
            "ul",
            *(
                tag("li", tag("b", f"{HELD[each.holds]}: "), f"{each.claim} ({each.figure})")
                for each in report.findings
            ),
        ),
        *experiment_figures(report).values(),
        tag("h2", "By alpha"),
        _table(
            ["alpha", *NAMES.values()],
            [[alpha_text(each.alpha), *(mean_text(each.means[name]) for name in MEASURES)] for each in report.alphas],
        ),
        tag("h2", "Slope and area over the unevenness of exposure"),
        _table(
            ["measure", "slope", "area"],
            [
                [NAMES[name], _number(curve.slope, "{:+.2f}"), _number(curve.area, "{:.2f}")]
                for name, curve in report.curves.items()
            ],
        ),
        tag("h2", "Worth of the answers less that under the order of the scores, by unevenness"),
        _table(
            ["EE-D", "questions", "difference [95 % interval]", "p", "adjusted (Holm)"],
            [_interval(each) for each in report.intervals],
        ),
        tag("p", "Each question is compared with itself; p is of flipped signs.", class_="note"),
    ]
    return standalone(title, _STYLE, *body)


def _what(report: ExperimentReport) -> str:
    useful = " and ".join(f"{kind} in {count:,}" for kind, count in report.useful_by.items())
    left = "".join(f"; {count:,} left out: {reason}" for reason, count in report.left_out.items())
    return (
        f"{report.questions:,} questions{left}. {report.samples:,} rankings of each at each alpha, of which {report.k} "
        f"documents are read; {report.answered:,} answers. Useful by {useful or 'nothing'}; worth by {report.utility} "
        f"with the reference answer; used where a document supports a claim. Seed {report.seed}."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    named = [("th", head), *(("td", row) for row in rows)]
    return tag("table", *(tag("tr", *(tag(name, cell) for cell in row)) for name, row in named))


def difference_text(each: IntervalDifference) -> str:
    """A difference with its interval."""
    if each.difference is None:
        return "–"
    return f"{each.difference:+.3f} [{each.low_end:+.3f}, {each.high_end:+.3f}]"


def _interval(each: IntervalDifference) -> list[str]:
    return [
        f"{each.low:.1f} to {each.high:.1f}",
        f"{each.requests:,}",
        difference_text(each),
        _number(each.p_value, "{:.4f}"),
        _number(each.adjusted, "{:.4f}"),
    ]


def mean_text(mean: Mean) -> str:
    """A mean with its interval."""
    if mean.value is None:
        return "–"
    return f"{mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}]"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def alpha_text(alpha: float | None) -> str:
    """An alpha; the order of the scores is that of an infinite one."""
    return "∞" if alpha is None else f"{alpha:g}"
