"""Why a chunk got its grade, drawn."""

from __future__ import annotations

import dataclasses
import re

from ragtrace.analyze.grade_attribution import GradientWeights, explain_grade
from ragtrace.export.explanation_html import grade_page, grade_sections
from tests.analyze.test_grade_attribution import SharedWords


def test_words_have_the_color_of_what_they_add() -> None:
    """One for, one against, each as strong as its weight; the other words stand there without one, in their order."""
    found = explain_grade(SharedWords(), "tariff ends Lima", "The tariff ends soon. Bees fly.")
    shown = str(grade_sections(found))
    assert re.search(r'<i class="d0 s\d" title="\+0\.\d+">tariff</i>', shown)
    assert re.search(r'<i class="d5 s\d" title="−0\.\d+">Lima</i>', shown)
    chunk = shown[shown.index("The chunk") :]
    assert re.sub(r"<[^>]+>", "", chunk[chunk.index("<div") : chunk.index("</div>")]) == found.texts[1]
    assert "Grade +0.20 by shared" in shown
    assert "by gradients" not in shown


def test_gradients_and_separator_stand_beside() -> None:
    """Where the judge is a classifier."""
    found = explain_grade(SharedWords(), "tariff ends Lima", "The tariff ends soon.")
    beside = GradientWeights(found.question, found.document, 0.0, 0.0)
    shown = str(grade_sections(dataclasses.replace(found, separator=-0.25, gradients=beside)))
    assert "What stands between both texts adds −0.250." in shown
    assert shown.count("by gradients") == 1


def test_what_is_recorded_is_no_markup() -> None:
    """Elements and signs that command a terminal are shown as text, in a file that loads nothing."""
    found = explain_grade(SharedWords(), "<b>tariff</b> \x1b[31m", "The <script>alert(1)</script> tariff.")
    shown = grade_page(found, "<img src=x>")
    assert "<script>alert" not in shown
    assert "<img" not in shown
    assert "\x1b" not in shown
    assert "Content-Security-Policy" in shown
