"""The English words that tell how a number stands in its sentence.

Knows nothing of tokens; ``quantities.py`` and ``reading.py`` look words up here.
"""


def words_of(text: str) -> frozenset[str]:
    """The words of a list written as one text."""
    return frozenset(text.split())


# a number after one of these tells how, when or of what, seldom the answer
PREPOSITIONS = words_of("in for over after from with by at on during within per of than since until before under")
DETERMINERS = words_of("the all these those his her their its my our your both each any every first last next")
PLACES = words_of("step steps page chapter question problem part day week month year no number note grade line #")
# "total of 72": here "of" leads to the number that counts
TOTALS = words_of("total sum balance amount cost price average value result answer difference equivalent")
# a number after one of these is never an answer
LABELS = words_of("step steps question problem part note line")
# "more than 72" says that it is not 72
BOUNDS = words_of("than > < ≥ ≤ almost nearly")
# "at least 72" may be 72 or not; where something is needed, the least is the answer
BOUND_PAIRS = frozenset({"at least", "at most", "up to"})
# "needs to buy 24" tells an answer, "to make 24 muffins" a purpose
NEEDING = words_of("needs need needed has have had wants going able left must required requires")

# what may stand between "the answer is" and its number
FILLERS = words_of(
    "a an about approximately approx around roughly exactly precisely simply just only equal to equals is be total of "
    "the number sum so thus therefore now still that it he she they has have had will be would there are was were "
    "altogether answer final and"
)
# where the unit of a number ends
STOPS = words_of(
    "in for over after from with by at on during within per of than since because as which when if so while"
)
# a second number after one of these makes a list
JOINERS = words_of(", ; / & and or to plus -")
HEDGES = words_of("maybe perhaps possibly even")
# what follows these explains; what follows the others concludes
REASONS = words_of("because since which")
CLAUSES = words_of("after before when if while once until to than for")
CONCLUSIONS = words_of("so therefore thus hence means meaning")
