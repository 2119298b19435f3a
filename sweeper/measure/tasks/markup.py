"""Fill the slots of a story: numbers with their nouns in the right number, names with their pronouns.

Knows nothing of stories or levels. Slots:

    {a}              the number called a
    {a|apple}        the number and its noun: "1 apple", "5 apples"
    {a|box|boxes}    the same for a noun with a plural of its own
    {a?is|are}       one of two words, by whether a is 1
    {A} {A.she}      a name, and she/he for it; also {A.her} (object), {A.hers} (possessive: her/his), {A.She}
    {@} {@1}         the story's noun in the plural and in the singular; {a|@} is "5 marbles"
    {=} {=|apple}    in a step: its result, and with the noun; {=$} writes "$5"
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

IRREGULAR_PLURALS = {"scarf": "scarves", "jar of honey": "jars of honey", "foot": "feet", "child": "children"}

_SLOT = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Person:
    """A name with its pronouns."""

    name: str
    she: str

    @property
    def pronouns(self) -> dict[str, str]:
        woman = self.she == "she"
        return {
            "she": self.she,
            "She": self.she.capitalize(),
            "her": "her" if woman else "him",
            "hers": "her" if woman else "his",
        }


@dataclass(frozen=True)
class Filling:
    """What the slots stand for. result: of the step being written, None in the question."""

    numbers: Mapping[str, int]
    people: Mapping[str, Person]
    noun: str = "thing"
    result: int | None = None


def fill(text: str, filling: Filling) -> str:
    """``text`` with every slot filled; raises KeyError for a slot that stands for nothing."""
    return _SLOT.sub(lambda match: _slot(match[1], filling), text)


def plural(noun: str) -> str:
    """English plural: a few by heart, else -s, -es after a hissing sound, -ies for a consonant and y."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if re.search(r"(?:s|x|z|ch|sh)$", noun):
        return noun + "es"
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + "s"


def _slot(slot: str, filling: Filling) -> str:
    if "?" in slot:
        name, words = slot.split("?", 1)
        one, many = words.split("|")
        return one if filling.numbers[name] == 1 else many
    if slot == "@":
        return plural(filling.noun)
    if slot == "@1":
        return filling.noun
    if slot.startswith("="):
        return _result(slot[1:], filling)
    if slot[0].isupper():
        name, _, form = slot.partition(".")
        person = filling.people[name]
        return person.pronouns[form] if form else person.name
    name, *nouns = slot.split("|")
    return _counted(filling.numbers[name], nouns, filling)


def _result(rest: str, filling: Filling) -> str:
    if filling.result is None:
        raise KeyError("= outside a step")
    if rest == "$":
        return f"${filling.result}"
    return _counted(filling.result, rest.split("|")[1:], filling)


def _counted(number: int, nouns: list[str], filling: Filling) -> str:
    if not nouns:
        return str(number)
    one = filling.noun if nouns[0] == "@" else nouns[0]
    many = nouns[1] if len(nouns) > 1 else plural(one)
    return f"{number} {one if number == 1 else many}"
