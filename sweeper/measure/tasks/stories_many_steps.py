"""Stories solved in three or four steps; levels 4 and 5."""

from sweeper.measure.tasks.story import Story, story

STORIES: tuple[Story, ...] = (
    story(
        "{A} sells {@} at the market for ${p} each. On Saturday {A.she} sells {a} and on Sunday {b}. "
        "The stall costs ${c} for the weekend. How many dollars does {A} have after paying for the stall?",
        "p:f a:n b:n c:p",
        "sold = a + b | {A} sells {=|@}.",
        "money = sold * p | For these {A.she} gets {=$}.",
        "r = money - c | After paying for the stall {A} has {=$}.",
        nouns="goods",
    ),
    story(
        "A school orders {a|box} of {@} with {b|@} in each. The teachers keep {c|@} and share the others equally among "
        "{d|class}. How many {@} does each class get?",
        "a:f b:n c:n d:f",
        "ordered = a * b | The school gets {=|@}.",
        "shared = ordered - c | There {shared?is|are} {=|@} to share.",
        "r = shared / d | Each class gets {=|@}.",
        nouns="paper",
    ),
    story(
        "{A} drives {a|mile} to the lake, and {B} drives {b} miles farther than {A}. Both drive home the same way. "
        "How many miles do the two of them drive in all?",
        "a:n b:n",
        "far = a + b | {B} drives {=|mile} to the lake.",
        "there = a + far | Together they drive {=|mile} to the lake.",
        "r = there * 2 | There and back that is {=|mile}.",
    ),
    story(
        "An orchard has {a|row} of {b|tree}. A storm knocks down {c|tree}. Every tree that stands gives {d|basket} of "
        "apples. How many baskets does the orchard give?",
        "a:f b:f c:f d:f",
        "trees = a * b | The orchard has {=|tree}.",
        "standing = trees - c | After the storm there {standing?is|are} {=|tree}.",
        "r = standing * d | They give {=|basket}.",
    ),
    story(
        "{A} is paid ${a} an hour. This month {A.she} works {b|hour} on each of {c|day}, "
        "and {B} pays {A.her} ${d} back. How many dollars does {A} get this month?",
        "a:f b:f c:f d:p",
        "hours = b * c | {A} works {=|hour}.",
        "wage = hours * a | For this {A.she} is paid {=$}.",
        "r = wage + d | With the money from {B} that is {=$}.",
    ),
    story(
        "A library has {a|book}. It buys {b} new ones, gives {c} to a hospital, and puts all that are left on "
        "{d|shelf|shelves}, the same number on each. How many books stand on each shelf?",
        "a:n b:n c:n d:f",
        "more = a + b | With the new ones there {more?is|are} {=|book}.",
        "left = more - c | After the gift there {left?is|are} {=|book}.",
        "r = left / d | On each shelf there {r?is|are} {=|book}.",
    ),
    story(
        "{A} has {a|@}. {B} has {b} times as many, and {C} has {c} fewer than {B}. "
        "How many {@} do the three have together?",
        "a:n b:f c:n",
        "second = a * b | {B} has {=|@}.",
        "third = second - c | {C} has {=|@}.",
        "r = a + second + third | Together they have {=|@}.",
    ),
    story(
        "A cook needs {a|egg} for every cake and bakes {b|cake}. Eggs come in cartons of {c}. One carton costs ${d}. "
        "How many dollars does the cook pay for the eggs?",
        "a:f b:n c:f d:f",
        "eggs = a * b | The cook needs {=|egg}.",
        "cartons = eggs / c | That is {=|carton}.",
        "r = cartons * d | The eggs cost {=$}.",
    ),
    story(
        "A theater has {a|seat}. On Friday {b} seats stay empty and on Saturday {c}. A seat costs ${d}. "
        "How many dollars do the two evenings bring in?",
        "a:n b:n c:n d:f",
        "friday = a - b | On Friday {=|seat} {friday?is|are} taken.",
        "saturday = a - c | On Saturday {=|seat} {saturday?is|are} taken.",
        "both = friday + saturday | In the two evenings {=|seat} {both?is|are} taken.",
        "r = both * d | They bring in {=$}.",
    ),
    story(
        "{A} has saved ${a}. {A.She} buys {b|@} for ${c} each and {d|@} for ${e} each as presents. "
        "How many dollars does {A} have left?",
        "a:n b:f c:f d:f e:f",
        "first = b * c | The first presents cost {=$}.",
        "second = d * e | The other presents cost {=$}.",
        "spent = first + second | In all {A} spends {=$}.",
        "r = a - spent | {A} has {=$} left.",
        nouns="goods",
    ),
    story(
        "A farm has {a|hen}. Each lays {b|egg} a week. The farmer's family eats {c|egg}, and the rest is packed "
        "in boxes of {d}. How many boxes are filled in a week?",
        "a:n b:f c:n d:f",
        "laid = a * b | The hens lay {=|egg}.",
        "rest = laid - c | There {rest?is|are} {=|egg} to pack.",
        "r = rest / d | They fill {=|box}.",
    ),
    story(
        "{A} fills a tank that holds {a|liter}. {A.She} carries {b|bucket} of {c|liter}, and {B} carries {d|bucket} of "
        "{e|liter}. How many liters are still missing?",
        "a:n b:f c:f d:f e:f",
        "mine = b * c | {A} carries {=|liter}.",
        "yours = d * e | {B} carries {=|liter}.",
        "carried = mine + yours | Together they carry {=|liter}.",
        "r = a - carried | So {=|liter} {r?is|are} missing.",
    ),
    story(
        "A gardener has {a|@} in one greenhouse and {b} in another. {c} of them dry out. The others are sold "
        "in sets of {d} for ${e} a set. How many dollars does the gardener get?",
        "a:n b:n c:n d:f e:f",
        "both = a + b | There {both?is|are} {=|@} in the greenhouses.",
        "good = both - c | Of these {=|@} can be sold.",
        "sets = good / d | They make {=|set}.",
        "r = sets * e | The gardener gets {=$}.",
        nouns="plants",
    ),
    story(
        "A hiking club rents {a|van} at ${b} each and buys food for ${c}. The {d|member} of the club "
        "share the cost equally. How many dollars does each of them pay?",
        "a:f b:p c:p d:f",
        "vans = a * b | The vans cost {=$}.",
        "cost = vans + c | With the food that is {=$}.",
        "r = cost / d | Each member pays {=$}.",
    ),
)
