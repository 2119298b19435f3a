"""Rows 10 to 13, 18 and 22: what a trusted key must not be able to say; types, ranges, names, contradictions."""

import dataclasses
from dataclasses import replace
from typing import Any

from sweeper.artifact.statements import SliceRef
from tests.artifact.attacks import Bench, add, attack
from tests.artifact.making import (
    CONTROLS,
    EVIDENCE,
    FROZEN,
    SLICES,
    audit_of,
    digest,
    edited_payload,
    files_of,
    number,
    whole_artifact,
)


@attack(10, "foreign-predicate-type", "predicate-type")
def _(bench: Bench) -> None:
    bench.verify_statement(lambda statement: statement.update(predicateType="https://slsa.dev/provenance/v1"))


@attack(10, "next-version", "predicate-type")
def _(bench: Bench) -> None:
    bench.verify_statement(lambda statement: statement.update(predicateType=statement["predicateType"][:-1] + "2"))


@attack(10, "no-predicate-type", "predicate-type")
def _(bench: Bench) -> None:
    bench.verify_statement(lambda statement: statement.pop("predicateType"))


@attack(10, "statement-v0.1", "statement-type")
def _(bench: Bench) -> None:
    bench.verify_statement(lambda statement: statement.update(_type="https://in-toto.io/Statement/v0.1"))


@attack(10, "statement-is-a-list", "statement-type")
def _(bench: Bench) -> None:
    bench.verify_payload(b"[]")


@attack(10, "unknown-statement-field", "schema")
def _(bench: Bench) -> None:
    bench.verify_statement(lambda statement: statement.update(extra="1"))


@attack(11, "audit-as-freeze", "predicate-type")
def _(bench: Bench) -> None:
    bench.verify_payload(audit_of(FROZEN).to_payload())


@attack(11, "freeze-as-audit", "predicate-type")
def _(bench: Bench) -> None:
    bench.verify(dataclasses.replace(bench.good, audits=bench.good.frozen))


@attack(11, "audit-of-another-id", "audit-mismatch")
def _(bench: Bench) -> None:
    bench.verify_audit(frozen=digest("5"))


@attack(11, "audit-of-other-controls", "audit-mismatch")
def _(bench: Bench) -> None:
    bench.verify_audit(controls=replace(CONTROLS, budget="4"))


@attack(11, "audit-with-the-subject-of-others", "subject-mismatch")
def _(bench: Bench) -> None:
    payload = edited_payload(
        audit_of(FROZEN).to_payload(), lambda value: value["subject"][0]["digest"].update(sha256=digest("5"))
    )
    bench.verify(files_of(bench.good.frozen[0], audits=(bench.signer.bundle(payload),)))


@attack(11, "bad-audit-beside-a-good-one", "audit-mismatch")
def _(bench: Bench) -> None:
    other = bench.signer.bundle(audit_of(FROZEN, frozen=digest("5")).to_payload())
    bench.verify(dataclasses.replace(bench.good, audits=(*bench.good.audits, other)))


@attack(12, "no-audit", "audit-missing")
def _(bench: Bench) -> None:
    bench.verify(dataclasses.replace(bench.good, audits=()))


@attack(12, "no-audit-though-the-caller-asks", "audit-missing")
def _(bench: Bench) -> None:
    bench.verify(dataclasses.replace(bench.good, audits=()), caller_asks_for_audit=True, require_audit=False)


@attack(12, "audit-of-another-workload", "audit-missing")
def _(bench: Bench) -> None:
    bench.verify_audit(workload=replace(FROZEN.workload, id="chat"))


@attack(12, "audit-of-shorter-requests", "audit-missing")
def _(bench: Bench) -> None:
    bench.verify_audit(workload=replace(FROZEN.workload, max_new_tokens=16))


@attack(13, "audit-before-freeze", "audit-order")
def _(bench: Bench) -> None:
    bench.verify_audit(created="2026-12-01T07:59:59Z")


@attack(13, "audited-on-the-confirm-slice", "slices-overlap")
def _(bench: Bench) -> None:
    against = {name: part for name, part in SLICES.items() if name != "confirm"}
    bench.verify_audit(slice=SLICES["confirm"], against=against)


@attack(13, "audited-on-what-it-names-as-apart", "slices-overlap")
def _(bench: Bench) -> None:
    payload = _with_slice(bench, SLICES["quality"].sha256)
    bench.verify(files_of(bench.good.frozen[0], audits=(bench.signer.bundle(payload),)))


def _with_slice(bench: Bench, sha256: str) -> bytes:
    good = audit_of(FROZEN).to_payload()
    return edited_payload(good, lambda statement: statement["predicate"]["slice"].update(sha256=sha256))


@attack(13, "audit-silent-about-a-slice", "slices-overlap")
def _(bench: Bench) -> None:
    bench.verify_audit(against={name: part for name, part in SLICES.items() if name != "quality"})


@attack(13, "audit-apart-from-another-slice", "slices-overlap")
def _(bench: Bench) -> None:
    bench.verify_audit(against={**SLICES, "quality": SliceRef(prompts=128, sha256=digest("6"))})


@attack(13, "audit-says-not-disjoint", "slices-overlap")
def _(bench: Bench) -> None:
    payload = edited_payload(audit_of(FROZEN).to_payload(), lambda value: value["predicate"].update(disjoint=False))
    bench.verify(files_of(bench.good.frozen[0], audits=(bench.signer.bundle(payload),)))


@attack(13, "confirmed-on-a-selection-slice", "slices-overlap")
def _(bench: Bench) -> None:
    bench.verify_predicate(lambda predicate: predicate["slices"].update(confirm=predicate["slices"]["quality"]))


for name, changes, code in (
    ("M-true", {"M": True}, "schema"),
    ("M-null", {"M": None}, "schema"),
    ("M-text", {"M": "2"}, "schema"),
    ("M-zero", {"M": 0}, "range"),
    ("M-65", {"M": 65}, "range"),
    ("K-zero", {"K": 0}, "range"),
    ("K-negative", {"K": -7}, "range"),
    ("K-65", {"K": 65}, "range"),
    ("B-null", {"B": None}, "schema"),
    ("B-number", {"B": 8}, "schema"),
    ("B-empty", {"B": ""}, "schema"),
    ("B-zero", {"B": "0"}, "range"),
    ("B-negative", {"B": "-8"}, "range"),
    ("B-over-the-cap", {"B": "100000.000001"}, "range"),
    ("B-NaN", {"B": "NaN"}, "schema"),
    ("B-inf", {"B": "inf"}, "schema"),
    ("B-exponent", {"B": "1e3"}, "schema"),
    ("B-space", {"B": "8 "}, "schema"),
    ("B-plus", {"B": "+8"}, "schema"),
    ("B-leading-zero", {"B": "08"}, "schema"),
    ("B-trailing-zero", {"B": "8.0"}, "schema"),
    ("B-underscore", {"B": "1_0"}, "schema"),
    ("B-seven-places", {"B": "0.1234567"}, "schema"),
    ("B-minus-zero", {"B": "-0"}, "schema"),
    ("g-over-the-cap", {"g": "10000.1"}, "range"),
    ("g-zero", {"g": "0"}, "range"),
    ("gate-unit", {"gate_unit": "per_block"}, "schema"),
    ("gate-unit-list", {"gate_unit": ["per_position"]}, "schema"),
    ("protect-stop-number", {"protect_stop": 1}, "schema"),
    ("other-rule", {"rule": "asd-blp/2"}, "schema"),
    ("extra-control", {"T": "1"}, "schema"),
):
    add(18, name, (code,), lambda bench, changes=changes: bench.verify_controls(**changes))

for control in ("B", "K", "M", "g", "gate_unit", "protect_stop", "rule"):
    add(
        18,
        f"missing-{control}",
        ("schema",),
        lambda bench, control=control: bench.verify_predicate(lambda predicate: predicate["controls"].pop(control)),
    )


@attack(18, "controls-are-a-list", "schema")
def _(bench: Bench) -> None:
    bench.verify_predicate(lambda predicate: predicate.update(controls=["8"]))


def predicate(row: int, name: str, code: str, path: str, value: Any) -> None:
    """The predicate with the field at ``path`` (keys joined by /) set, signed by the trusted key."""

    def edit(found: Any) -> None:
        *above, last = path.split("/")
        for key in above:
            found = found[key]
        found[last] = value

    add(row, name, (code,), lambda bench: bench.verify_predicate(edit))


for field in ("lineage", "workload/id", "workload/prompt_format", "study/name", "tool_version", "serving/model"):
    label = field.replace("/", "-")
    predicate(22, f"parent-folder-in-{label}", "path-traversal", field, "../../etc/passwd")
    predicate(22, f"absolute-path-in-{label}", "path-traversal", field, "/etc/passwd")
    predicate(22, f"home-in-{label}", "path-traversal", field, "~/asd")
    predicate(22, f"backslashes-in-{label}", "path-traversal", field, r"..\..\evil")
    for kind, content in (
        ("shell", "x;reboot"),
        ("substitution", "x$(reboot)"),
        ("yaml", "x: {y: z}"),
        ("yaml-line", "x #y"),
        ("jinja", "{{7*7}}"),
        ("quote", 'x"y'),
        ("option", "--trust-remote-code"),
        ("empty", ""),
        ("long", "x" * 1000),
        ("number", 1),
        ("list", ["x"]),
    ):
        predicate(22, f"{kind}-in-{label}", "schema", field, content)

predicate(22, "inner-parent-folder", "path-traversal", "lineage", "prod/../other")
predicate(22, "binding-with-a-newline-like-escape", "schema", "bindings/target.name", r"x\ny")
predicate(
    22, "drafter-path-in-the-engine-settings", "path-traversal", "serving/speculative_config", '{"model":"/tmp/evil"}'
)
predicate(
    22,
    "drafter-path-deep-in-the-engine-settings",
    "path-traversal",
    "serving/speculative_config",
    '{"a":[{"b":"../evil"}]}',
)
predicate(22, "engine-settings-not-an-object", "schema", "serving/speculative_config", '["x"]')
predicate(22, "engine-settings-not-canonical", "schema", "serving/speculative_config", '{"a": 1}')
predicate(22, "engine-settings-key-twice", "json-duplicate-key", "serving/speculative_config", '{"a":1,"a":2}')
predicate(22, "engine-settings-infinite", "json-float", "serving/speculative_config", '{"a":1e999}')
predicate(22, "engine-settings-escaped-control", "not-ascii", "serving/speculative_config", r'{"a":"\u001b"}')
predicate(22, "engine-settings-a-number", "schema", "serving/speculative_config", 1)
predicate(22, "engine-settings-huge", "schema", "serving/speculative_config", '{"a":"' + "x" * 5000 + '"}')
predicate(22, "serving-field-unknown", "schema", "serving/trust_remote_code", "true")
predicate(22, "context-length-not-whole", "schema", "serving/max_model_len", "2048.5")
predicate(22, "context-length-a-number", "schema", "serving/max_model_len", 2048)
predicate(22, "revision-a-branch", "schema", "serving/revision", "main")

for path, value, code in (
    ("serial", 0, "range"),
    ("serial", "3", "schema"),
    ("supersedes", "x", "schema"),
    ("lossy", False, "schema"),
    ("lossy", 1, "schema"),
    ("created", "2026-12-01 08:00:00Z", "schema"),
    ("created", 1796112000, "schema"),
    ("created", "2026-13-01T08:00:00Z", "range"),
    ("created", "2026-02-30T08:00:00Z", "range"),
    ("not_after", "2026-12-01T08:00:00Z", "range"),
    ("not_after", "2026-12-01T07:00:00Z", "range"),
    ("bindings/unknown.name", "x", "schema"),
    ("bindings/target.name", 1, "schema"),
    ("bindings", ["x"], "schema"),
    ("bindings/draft_length", "5", "evidence-contradiction"),
    ("bindings/rule", "asd-blp/2", "evidence-contradiction"),
    ("bindings/torch.version", "2.13.0", "schema"),
    ("not_obtained", [], "schema"),
    ("not_obtained", ["torch.version", "accelerator.name"], "schema"),
    ("not_obtained", "torch.version", "schema"),
    ("not_obtained", ["x"] * 1001, "range"),
    ("workload/temperature", "0.7", "schema"),
    ("workload/max_new_tokens", 0, "range"),
    ("slices", {}, "schema"),
    ("slices", {"confirm": {"prompts": 400, "sha256": digest("3")}}, "schema"),
    ("slices/other", {"prompts": 1, "sha256": digest("4")}, "schema"),
    ("slices/confirm/prompts", 0, "range"),
    ("evidence/clock", "moon", "schema"),
    ("evidence/protocol", "asd-protocol/0", "schema"),
    ("evidence/divergence/count", 401, "range"),
    ("evidence/gain_pct/lo", "13", "range"),
    ("evidence/gain_pct/level", "0.9", "schema"),
    ("evidence/margin_pp", "-1", "range"),
    ("evidence/correct", {"strict": 1}, "schema"),
    ("evidence/correct/other", 1, "schema"),
    ("evidence/weak", ["b", "a"], "schema"),
    ("evidence/weak", {}, "schema"),
    ("evidence/weak", None, "schema"),
    ("evidence/weak", [f"w{i:02}" for i in range(33)], "range"),
    ("evidence/gain_pct/lo", "0", "evidence-contradiction"),
    ("evidence/gain_pct/lo", "", "evidence-contradiction"),
    ("evidence/accuracy_lower_pp", "-2", "evidence-contradiction"),
    ("evidence/accuracy_lower_pp", "", "evidence-contradiction"),
    ("evidence/drift_limit_pct", "0", "range"),
    ("evidence/drift_limit_pct", "-3", "range"),
    ("evidence/drift_limit_pct", "1000.1", "range"),
    ("evidence/drift_limit_pct", "", "schema"),
    ("evidence/drift_limit_pct", 3, "schema"),
    ("evidence/drift_limit_pct", "3.000001", "evidence-contradiction"),
    ("evidence/drift_limit_pct", "200", "evidence-contradiction"),
    ("study/trial", -1, "range"),
    ("study/plan_digest", "abc", "schema"),
):
    predicate(18, f"{path.replace('/', '-')}-{str(value)[:24]}".replace(" ", "_"), code, path, value)


@attack(18, "too-many-bindings", "range")
def _(bench: Bench) -> None:
    bench.verify_predicate(lambda found: found.update(bindings={f"x{i}": "y" for i in range(1001)}))


@attack(18, "audit-verdict-not-shown-by-its-numbers", "evidence-contradiction")
def _(bench: Bench) -> None:
    bench.verify_audit(accuracy_lower_pp="-2.5")


@attack(18, "audit-of-no-length", "range")
def _(bench: Bench) -> None:
    bench.verify_audit(not_after="2026-12-02T08:00:00Z")


@attack(18, "weak-freeze", "weak-evidence")
def _(bench: Bench) -> None:
    bench.verify_frozen(replace(FROZEN, evidence=replace(EVIDENCE, gain_pct=number("1"), weak=["gain-not-shown"])))


@attack(18, "weak-audit", "weak-evidence")
def _(bench: Bench) -> None:
    bench.verify_audit(weak=["too-few-prompts"])


@attack(18, "freeze-of-a-shown-loss", "loss-shown")
def _(bench: Bench) -> None:
    lost = number("-9", "-12", "-6")
    lossy = replace(EVIDENCE, accuracy_change_pp=lost, accuracy_lower_pp="-11", weak=["margin-not-shown"])
    bench.verify_frozen(replace(FROZEN, evidence=lossy), accept_weak_evidence=True)


@attack(18, "audit-of-a-shown-loss", "loss-shown")
def _(bench: Bench) -> None:
    lost = number("-9", "-12", "-6")
    changed = whole_artifact(bench.signer, verdict="not-shown", accuracy_change_pp=lost, accuracy_lower_pp="-11")
    bench.verify(changed, accept_weak_evidence=True)


@attack(18, "no-drift-limit", "schema")
def _(bench: Bench) -> None:
    bench.verify_predicate(lambda found: found["evidence"].pop("drift_limit_pct"))


@attack(18, "relaxed-drift-limit-that-is-admitted", "weak-evidence")
def _(bench: Bench) -> None:
    relaxed = replace(EVIDENCE, drift_limit_pct="200", weak=["drift-limit-relaxed"])
    bench.verify_frozen(replace(FROZEN, evidence=relaxed))


@attack(18, "freeze-with-a-margin-above-the-policys", "margin-too-wide")
def _(bench: Bench) -> None:
    wide = replace(FROZEN, evidence=replace(EVIDENCE, margin_pp="50"))
    bench.verify_frozen(wide, max_margin_pp="2", accept_weak_evidence=True)


@attack(18, "margin-just-above-the-policys", "margin-too-wide")
def _(bench: Bench) -> None:
    bench.verify(bench.good, max_margin_pp="1.999999")


@attack(18, "margin-above-the-policys-in-more-digits", "margin-too-wide")
def _(bench: Bench) -> None:
    """As numbers, not as texts: "10" sorts below "9"."""
    bench.verify_frozen(replace(FROZEN, evidence=replace(EVIDENCE, margin_pp="10")), max_margin_pp="9")


@attack(18, "audit-with-a-margin-above-the-policys", "margin-too-wide")
def _(bench: Bench) -> None:
    bench.verify(whole_artifact(bench.signer, margin_pp="50"), max_margin_pp="2", accept_weak_evidence=True)


@attack(18, "audit-nobody-asked-for-with-a-margin-above-the-policys", "margin-too-wide")
def _(bench: Bench) -> None:
    bench.verify(whole_artifact(bench.signer, margin_pp="50"), max_margin_pp="2", require_audit=False)


@attack(18, "audit-that-showed-nothing", "weak-evidence")
def _(bench: Bench) -> None:
    bench.verify_audit(verdict="not-shown", accuracy_lower_pp="-5")
