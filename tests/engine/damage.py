"""Ways in which a model folder that the program made can be broken."""

from pathlib import Path

from sweeper.engine.made_folder import MANIFEST

DAMAGES = ("truncated", "deleted", "manifest")


def damage(folder: Path, how: str) -> None:
    """Cut the weights short, remove the tokenizer, or leave half a manifest."""
    if how == "truncated":
        (folder / "model.safetensors").write_bytes(b"w")
    elif how == "deleted":
        (folder / "tokenizer.json").unlink()
    else:
        (folder / MANIFEST).write_text('{"format": ')
