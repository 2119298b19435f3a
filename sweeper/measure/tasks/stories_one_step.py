"""Stories solved in one step: level 1 adds and takes away, level 2 multiplies and divides as well."""

from sweeper.measure.tasks.story import Story, story

ADDING: tuple[Story, ...] = (
    story(
        "{A} has {a|@}. {B} gives {A.her} {b} more. How many {@} does {A} have now?",
        "a:n b:n",
        "r = a + b | {A} has {=|@} now.",
    ),
    story(
        "{A} picks {a|@} in the morning and {b|@} after lunch. How many {@} does {A} pick that day?",
        "a:n b:n",
        "r = a + b | {A} picks {=|@} that day.",
        nouns="food",
    ),
    story(
        "There {a?is|are} {a|@} in the barn and {b|@} in the yard. How many {@} are there altogether?",
        "a:n b:n",
        "r = a + b | There {r?is|are} {=|@} altogether.",
        nouns="animals",
    ),
    story(
        "{A} plants {a|@} by the gate. Then {A.she} plants {b|@} along the wall. How many {@} has {A} planted?",
        "a:n b:n",
        "r = a + b | {A} has planted {=|@}.",
        nouns="plants",
    ),
    story(
        "A bus carries {a|passenger}. At the library {b} more {b?gets|get} on and nobody gets off. "
        "How many passengers are on the bus?",
        "a:n b:n",
        "r = a + b | The bus carries {=|passenger}.",
    ),
    story(
        "{A} walks {a|mile} on Friday and {b|mile} on Saturday. How many miles does {A.she} walk in the two days?",
        "a:n b:n",
        "r = a + b | {A} walks {=|mile}.",
    ),
    story(
        "{A} is {a|year} old. {B} is {b|year} older than {A}. How old is {B}?",
        "a:n b:n",
        "r = a + b | {B} is {=|year} old.",
    ),
    story(
        "A ticket to the puppet show costs ${a} and a cup of juice costs ${b}. "
        "How many dollars does {A} pay for one ticket and one juice?",
        "a:p b:p",
        "r = a + b | {A} pays {=$}.",
    ),
)

TAKING_AWAY: tuple[Story, ...] = (
    story(
        "{A} has {a|@}. {A.She} gives {b} of them to {B}. How many {@} does {A} have left?",
        "a:n b:n",
        "r = a - b | {A} has {=|@} left.",
    ),
    story(
        "{A} bakes {a|@} for the school fair and sells {b} of them. How many {@} are left?",
        "a:n b:n",
        "r = a - b | There {r?is|are} {=|@} left.",
        nouns="bakes",
    ),
    story(
        "There are {a|bird} on a roof. A cat comes and {b} of them {b?flies|fly} away. "
        "How many birds stay on the roof?",
        "a:n b:n",
        "r = a - b | There {r?is|are} {=|bird} on the roof.",
    ),
    story(
        "{A} wants to read {a|page} before dinner. So far {A.she} has read {b}. How many pages are still to go?",
        "a:n b:n",
        "r = a - b | There {r?is|are} {=|page} to go.",
    ),
    story(
        "{A} has ${a} and spends ${b} on a comic book. How many dollars does {A.she} have left?",
        "a:p b:p",
        "r = a - b | {A} has {=$} left.",
    ),
    story(
        "{A} needs {a|@} for class. {A.She} already has {b}. How many more {@} does {A} need?",
        "a:n b:n",
        "r = a - b | {A} needs {=|@} more.",
        nouns="paper",
    ),
)

MULTIPLYING_AND_DIVIDING: tuple[Story, ...] = (
    story(
        "{A} buys {a|bag} of {@}. There {b?is|are} {b|@} in every bag. How many {@} does {A} buy?",
        "a:f b:f",
        "r = a * b | {A} buys {=|@}.",
        nouns="food",
    ),
    story(
        "{A} puts {a|@} on each of {b|shelf|shelves}. How many {@} does {A} put on the shelves?",
        "a:f b:f",
        "r = a * b | {A} puts {=|@} on the shelves.",
        nouns="goods",
    ),
    story(
        "One {@1} costs ${a}. {A} buys {b} of them. How many dollars does {A} pay?",
        "a:f b:f",
        "r = a * b | {A} pays {=$}.",
        nouns="goods",
    ),
    story(
        "A swimming lesson lasts {a|hour}. {A} takes {b|lesson} this month. How many hours is {A} in the pool?",
        "a:f b:f",
        "r = a * b | {A} is in the pool for {=|hour}.",
    ),
    story(
        "{A} shares {a|@} equally among {b|friend}. How many {@} does each friend get?",
        "a:n b:f",
        "r = a / b | Each friend gets {=|@}.",
        nouns="food",
    ),
    story(
        "{A} packs {a|@} into boxes that hold {b} each. How many boxes does {A} fill?",
        "a:n b:f",
        "r = a / b | {A} fills {=|box}.",
        nouns="goods",
    ),
)
