"""Slices: named, disjoint sets of prompts, assigned by the hash of the normalised question.

Placeholder vocabulary for now; the cutting follows.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A question with its exact answer. ``problem_id`` is derived from the question's normalised text."""

    problem_id: str
    question: str
    answer: str
