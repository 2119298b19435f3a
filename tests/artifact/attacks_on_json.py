"""Rows 15 to 17 and 19 to 21: what JSON, base64 and text can hide; in the envelope and in the signed payload."""

import base64
import json
from typing import Any

from sweeper.artifact.envelope import make_bundle, pae
from tests.artifact.attacks import Bench, add, attack
from tests.artifact.making import good_payloads


def text(row: int, name: str, code: str, old: str, new: str) -> None:
    """A payload signed by the trusted key with one piece of text replaced."""
    add(row, name, (code,), lambda bench: bench.verify_text(old, new))


def bundle(row: int, name: str, code: str, old: bytes, new: bytes) -> None:
    """The bundle file with one piece of text replaced."""

    def run(bench: Bench) -> None:
        good = bench.good.frozen[0]
        assert good.count(old) == 1, f"{old!r} stands {good.count(old)} times in the bundle"
        bench.verify_bundles(good.replace(old, new))

    add(row, name, (code,), run)


text(15, "key-twice", "json-duplicate-key", '"B":"8"', '"B":"8","B":"80"')
text(15, "key-twice-by-escape", "json-duplicate-key", '"M":2', r'"M":2,"\u004d":64')
text(15, "predicate-twice", "json-duplicate-key", '"predicate":', '"predicate":{},"predicate":')
bundle(15, "key-twice-in-envelope", "json-duplicate-key", b'"mediaType":', b'"mediaType":"x","mediaType":')
bundle(
    15, "key-twice-in-envelope-by-escape", "json-duplicate-key", b'"mediaType":', rb'"\u006dediaType":"x","mediaType":'
)

for number, code in (
    ("NaN", "json-constant"),
    ("Infinity", "json-constant"),
    ("-Infinity", "json-constant"),
    ("1e999", "json-float"),
    ("2.0", "json-float"),
    ("2e0", "json-float"),
    ("-0.0", "json-float"),
    ("-0", "json-int-range"),
    ("9" * 16, "json-int-range"),
    ("-" + "9" * 16, "json-int-range"),
    ("9" * 5000, "json-int-range"),
):
    row = 17 if len(number) > 9 and number.strip("-").isdigit() else 16
    text(row, f"number-{number[:10]}-{len(number)}", code, '"M":2', f'"M":{number}')
bundle(16, "NaN-in-envelope", "json-constant", b'"hint":', b'"hint":NaN,"x":')

text(17, "deep-list", "json-too-deep", '"M":2', '"M":' + "[" * 80_000 + "]" * 80_000)
text(17, "seventeen-levels", "json-too-deep", '"M":2', '"M":' + "[" * 14 + "]" * 14)
bundle(
    17,
    "deep-envelope",
    "json-too-deep",
    b'"mediaType":',
    b'"x":' + b'{"a":' * 30_000 + b"1" + b"}" * 30_000 + b',"mediaType":',
)
bundle(17, "deep-behind-an-open-string", "json-too-deep", b'{"dsse', b"[" * 20 + b'{"dsse')

for name, tail, code in (
    ("trailing-byte", b"x", "json-syntax"),
    ("second-document", b"{}", "json-syntax"),
    ("nul", b"\0", "json-syntax"),
    ("form-feed", b"\f", "json-syntax"),
    ("comment", b"//", "json-syntax"),
    ("no-break-space", "\u00a0".encode(), "not-ascii"),
):
    add(19, f"{name}-after-payload", (code,), lambda bench, tail=tail: bench.verify_payload(good_payloads()[0] + tail))
    add(19, f"{name}-after-bundle", (code,), lambda bench, tail=tail: bench.verify_bundles(bench.good.frozen[0] + tail))

for encoding, code in (
    ("utf-8-sig", "not-ascii"),
    ("utf-16", "not-ascii"),
    ("utf-16-le", "json-syntax"),
    ("utf-32-be", "json-syntax"),
):
    add(
        19,
        f"{encoding}-payload",
        (code,),
        lambda bench, encoding=encoding: bench.verify_payload(good_payloads()[0].decode().encode(encoding)),
    )
    add(
        19,
        f"{encoding}-bundle",
        (code,),
        lambda bench, encoding=encoding: bench.verify_bundles(bench.good.frozen[0].decode().encode(encoding)),
    )

for name, content in (("empty", b""), ("spaces", b"  "), ("cut-short", None)):
    add(
        19,
        f"{name}-payload",
        ("json-syntax",),
        lambda bench, content=content: bench.verify_payload(good_payloads()[0][:-1] if content is None else content),
    )
    add(
        19,
        f"{name}-bundle",
        ("json-syntax",),
        lambda bench, content=content: bench.verify_bundles(bench.good.frozen[0][:-1] if content is None else content),
    )

text(20, "space", "noncanonical-payload", '"M":2', '"M": 2')
text(20, "newline-at-the-end", "noncanonical-payload", '"predicateType"', '\n"predicateType"')
text(20, "escaped-slash", "noncanonical-payload", '"id":"math"', r'"id":"m\u0061th"')
text(20, "escaped-solidus", "noncanonical-payload", "chat/2-shot", r"chat\/2-shot")


@attack(20, "keys-in-another-order", "noncanonical-payload")
def _(bench: Bench) -> None:
    value = json.loads(good_payloads()[0])
    other = dict(reversed(list(value.items())))
    bench.verify_payload(json.dumps(other, separators=(",", ":")).encode())


def _payload_text(row: int, name: str, code: str, change: Any) -> None:
    def edit(value: dict[str, Any]) -> None:
        value["dsseEnvelope"]["payload"] = change(value["dsseEnvelope"]["payload"])

    add(row, name, (code,), lambda bench: bench.verify_edited(edit))


_payload_text(20, "base64-with-star", "base64", lambda text: text[:76] + "*" + text[76:])
_payload_text(20, "base64-with-space", "base64", lambda text: text[:76] + " " + text[76:])
_payload_text(20, "base64-without-padding", "base64", lambda text: text.rstrip("=")[:-1])
_payload_text(20, "payload-is-a-list", "schema", lambda text: [text])


def _too_much_padding(bench: Bench, rest: int) -> None:
    """Padding behind a payload whose length leaves this rest when divided by 3."""
    payload = good_payloads()[0]
    payload += b" " * ((rest - len(payload)) % 3)
    bundle = json.loads(make_bundle(payload, bench.signer.sign(pae(payload)), bench.signer.public.hint))
    bundle["dsseEnvelope"]["payload"] = bundle["dsseEnvelope"]["payload"].rstrip("=") + "====="
    bench.verify_bundles(json.dumps(bundle).encode("ascii"))


add(20, "base64-too-much-padding", ("base64-noncanonical",), lambda bench: _too_much_padding(bench, 0))
add(20, "base64-too-much-padding-after-some", ("base64",), lambda bench: _too_much_padding(bench, 1))


@attack(20, "base64-spare-bits", "base64-noncanonical")
def _(bench: Bench) -> None:
    """A payload whose length leaves spare bits in its last character; they are set."""
    payload = good_payloads()[0]
    while len(payload) % 3 != 1:
        payload += b" "
    bundle = json.loads(make_bundle(payload, bench.signer.sign(pae(payload)), bench.signer.public.hint))
    text = bundle["dsseEnvelope"]["payload"]
    assert text.endswith("==")
    other = text[:-3] + chr(ord(text[-3]) + 1) + "=="
    assert base64.b64decode(other) == payload
    bundle["dsseEnvelope"]["payload"] = other
    bench.verify_bundles(json.dumps(bundle).encode())


@attack(20, "base64-for-urls", "base64")
def _(bench: Bench) -> None:
    """A payload whose base64 holds characters that the URL-safe form spells in another way."""
    payload = b"~~~" + good_payloads()[0] + b"???"
    bundle = json.loads(make_bundle(payload, bench.signer.sign(pae(payload)), bench.signer.public.hint))
    standard = bundle["dsseEnvelope"]["payload"]
    safe = base64.urlsafe_b64encode(payload).decode()
    assert safe != standard
    bundle["dsseEnvelope"]["payload"] = safe
    bench.verify_bundles(json.dumps(bundle).encode())


text(21, "cyrillic", "not-ascii", '"lineage":"prod', '"lineage":"pr\u043ed')
text(21, "cyrillic-by-escape", "not-ascii", '"lineage":"prod', r'"lineage":"pr\u043ed')
text(21, "right-to-left-override", "not-ascii", '"lineage":"prod', r'"lineage":"pro\u202ed')
text(21, "terminal-escape", "not-ascii", '"lineage":"prod', r'"lineage":"\u001b[2Jprod')
text(21, "newline", "not-ascii", '"lineage":"prod', r'"lineage":"prod\nOK verified')
text(21, "delete", "not-ascii", '"lineage":"prod', r'"lineage":"prod\u007f')
text(21, "lone-surrogate", "not-ascii", '"lineage":"prod', r'"lineage":"prod\ud800')
text(21, "in-a-list", "not-ascii", '"not_obtained":[', r'"not_obtained":["\u0430",')
text(21, "in-a-key", "not-ascii", '"lineage":', r'"line\u0430ge":')
bundle(21, "terminal-escape-in-hint", "not-ascii", b'"hint":"', rb'"hint":"\u001b[2J')
