"""Stories solved in two steps; levels 3 and 4."""

from sweeper.measure.tasks.story import Story, story

STORIES: tuple[Story, ...] = (
    story(
        "{A} has {a|@}. {A.She} finds {b} more in a drawer and then gives {c} to {B}. How many {@} does {A} have now?",
        "a:n b:n c:n",
        "found = a + b | {A} first has {=|@}.",
        "r = found - c | After the gift {A} has {=|@}.",
    ),
    story(
        "{A} buys {a|pack} of {@} with {b} in each pack. {A.She} already had {c|@} at home. "
        "How many {@} does {A} have in all?",
        "a:f b:f c:n",
        "bought = a * b | {A} buys {=|@}.",
        "r = bought + c | {A} has {=|@} in all.",
        nouns="paper",
    ),
    story(
        "A baker fills {a|tray} with {b|roll} each. By noon {c|roll} {c?is|are} sold. How many rolls are left?",
        "a:f b:f c:n",
        "baked = a * b | The baker makes {=|roll}.",
        "r = baked - c | There {r?is|are} {=|roll} left.",
    ),
    story(
        "{A} earns ${a} for every lawn {A.she} mows. {A.She} mows {b|lawn} and spends ${c} on petrol. "
        "How many dollars does {A} keep?",
        "a:f b:f c:p",
        "earned = a * b | {A} earns {=$}.",
        "r = earned - c | {A} keeps {=$}.",
    ),
    story(
        "{A} and {B} collect {@} together. {A} brings {a} and {B} brings {b}. They share them equally between {c|box}. "
        "How many {@} go into each box?",
        "a:n b:n c:f",
        "both = a + b | Together they have {=|@}.",
        "r = both / c | Each box gets {=|@}.",
    ),
    story(
        "A farmer has {a|@}. {A.She} sells {b} of them and puts the others into {c|pen} of the same size. "
        "How many {@} are in each pen?",
        "a:n b:n c:f",
        "kept = a - b | The farmer keeps {=|@}.",
        "r = kept / c | Each pen holds {=|@}.",
        nouns="animals",
    ),
    story(
        "One {@1} costs ${a} and the delivery costs ${b}. How many dollars does {A} pay for {c|@} in one delivery?",
        "a:f b:p c:f",
        "goods = a * c | The {@} cost {=$}.",
        "r = goods + b | With the delivery {A} pays {=$}.",
        nouns="goods",
    ),
    story(
        "{A} reads {a|page} a day for {b|day}. The book has {c|page}. How many pages has {A} still to read?",
        "a:f b:f c:n",
        "read = a * b | {A} has read {=|page}.",
        "r = c - read | There {r?is|are} {=|page} still to read.",
    ),
    story(
        "A train leaves with {a|passenger}. At the first stop {b} {b?gets|get} off, "
        "and at the second stop {c} {c?gets|get} on. How many passengers are on the train then?",
        "a:n b:n c:n",
        "stayed = a - b | After the first stop there {stayed?is|are} {=|passenger}.",
        "r = stayed + c | After the second stop there {r?is|are} {=|passenger}.",
    ),
    story(
        "{A} has {a|@} and {B} has {b} times as many. How many {@} do they have together?",
        "a:n b:f",
        "other = a * b | {B} has {=|@}.",
        "r = a + other | Together they have {=|@}.",
    ),
    story(
        "{A} ties {a|@} into bunches of {b}. {A.She} sells every bunch for ${c}. How many dollars does {A} take in?",
        "a:n b:f c:f",
        "bunches = a / b | {A} ties {=|bunch}.",
        "r = bunches * c | {A} takes in {=$}.",
        nouns="flowers",
    ),
    story(
        "{A} saves ${a} every week. {A.She} wants a bicycle for ${b} and has ${c} already. "
        "How many weeks does {A} have to save?",
        "a:f b:n c:p",
        "missing = b - c | {A} is short of {=$}.",
        "r = missing / a | {A} has to save for {=|week}.",
    ),
    story(
        "In a hall there are {a|row} of {b|chair}. {c|chair} {c?is|are} broken. How many chairs can be used?",
        "a:f b:f c:n",
        "chairs = a * b | There {chairs?is|are} {=|chair} in the hall.",
        "r = chairs - c | So {=|chair} can be used.",
    ),
    story(
        "{A} cuts a rope of {a|foot|feet} into pieces of {b|foot|feet} and uses {c} of the pieces. "
        "How many pieces are left?",
        "a:n b:f c:f",
        "pieces = a / b | {A} gets {=|piece}.",
        "r = pieces - c | There {r?is|are} {=|piece} left.",
    ),
    story(
        "{A} runs {a|lap} on Monday. On Tuesday {A.she} runs {b} more than on Monday. "
        "How many laps does {A} run in the two days?",
        "a:n b:n",
        "tuesday = a + b | On Tuesday {A} runs {=|lap}.",
        "r = a + tuesday | In the two days {A} runs {=|lap}.",
    ),
    story(
        "A class of {a|child|children} makes lanterns. Every child makes {b}. The class hangs up {c|lantern} and gives "
        "the rest away. How many lanterns does the class give away?",
        "a:n b:f c:n",
        "made = a * b | The class makes {=|lantern}.",
        "r = made - c | It gives away {=|lantern}.",
    ),
)
