"""Grade generations: correct, wrong, or unanswered; exact, and never a guess.

``verdict.grade_gsm8k`` is the way in for GSM8K. Reading order: ``text`` (one way of writing), ``markers`` and
``unmarked`` (where the answer stands), ``quantities`` (which numbers are there), ``choice`` and ``reading`` (which of
them is meant), ``verdict``. Beside it: ``lm_eval``, ``latex``, ``letters``, ``code``, ``open_ended``, ``scorer``.
"""

from sweeper.measure.grading.verdict import Grade, Verdict, grade_gsm8k

__all__ = ["Grade", "Verdict", "grade_gsm8k"]
