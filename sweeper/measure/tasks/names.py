"""People and things that stories are about."""

from sweeper.measure.tasks.markup import Person

PEOPLE: tuple[Person, ...] = tuple(
    Person(name, pronoun)
    for pronoun, names in (
        (
            "she",
            "Ada Amina Bea Carla Dana Elif Farah Greta Hanna Ines Julia Kira Lena Mina Nora Olga Priya Rosa Sofia Tess",
        ),
        (
            "he",
            "Aron Ben Carlos David Emil Felix Goran Hugo Ivan Jonas Karim Leo Marco Nils Omar Paul Ravi Sam Tom Viktor",
        ),
    )
    for name in names.split()
)

NOUNS: dict[str, tuple[str, ...]] = {
    "toys": ("marble", "sticker", "shell", "button", "coin", "card", "bead", "stamp", "badge", "pebble"),
    "food": ("apple", "pear", "plum", "cookie", "muffin", "walnut", "lemon", "olive", "fig", "carrot"),
    "bakes": ("cookie", "muffin", "pie", "pretzel", "roll", "cupcake", "scone", "waffle"),
    "flowers": ("tulip", "rose", "lily", "daisy", "carnation", "sunflower", "iris", "violet"),
    "paper": ("pencil", "crayon", "eraser", "notebook", "envelope", "marker", "folder", "postcard"),
    "plants": ("tulip", "rose", "bean plant", "cactus", "fern", "lily", "daisy", "pepper plant"),
    "animals": ("hen", "duck", "goat", "rabbit", "sheepdog", "pony", "turkey", "lamb"),
    "goods": ("lamp", "mug", "scarf", "basket", "candle", "kite", "blanket", "jar of honey"),
}
