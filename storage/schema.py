"""Our tables, all called ``asd_...``, in the database file they share with Optuna's.

Knows nothing of Optuna's tables and refers to none of them: a foreign key into them makes Optuna's own deletion of
a study return without deleting anything. Trials are named by (study, trial number). Times are UTC in ISO 8601.
"""

from sqlalchemy import Column, Float, Index, Integer, MetaData, Table, Text, UniqueConstraint

PREFIX = "asd_"
VERSION_TABLE = "asd_alembic_version"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

studies = Table(
    "asd_studies",
    metadata,
    Column("name", Text, primary_key=True),
    Column("spec", Text, nullable=False, comment="the StudySpec as JSON"),
    Column("plan_digest", Text, nullable=False),
    Column("source", Text, nullable=False, comment="facts about the prompts' source, JSON object"),
    Column("slices", Text, nullable=False, comment="facts about the slices (sizes, digests), JSON object"),
    Column("state", Text, nullable=False),
    Column("clock", Text, nullable=False),
    Column("asd_sweep_version", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
)

legs = Table(
    "asd_legs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", Text, nullable=False),
    Column("leg_key", Text, nullable=False),
    Column("trial", Integer, comment="null: shared by all trials of the draft length"),
    Column("draft_length", Integer, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("slot", Integer, nullable=False),
    Column("engine_id", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("token_hash", Text, nullable=False),
    Column("wall_seconds", Float, nullable=False),
    Column("cpu_seconds", Float, nullable=False),
    Column("summary", Text, nullable=False, comment="LegRecord.summary() as JSON"),
    Column("payload_path", Text, comment="relative to the study's artifacts folder; null: nothing to keep"),
    Column("payload_sha256", Text, comment="of the file's bytes"),
    Column("recorded_at", Text, nullable=False),
    Column("stage", Text, nullable=False, server_default="study", comment="study, or the set-aside slice it decoded"),
    UniqueConstraint("study", "leg_key"),
    Index(None, "study", "trial"),
    Index(None, "study", "draft_length", "purpose"),
)

engine_starts = Table(
    "asd_engine_starts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", Text, nullable=False, index=True),
    Column("engine_id", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("draft_length", Integer, nullable=False),
    Column("facts", Text, nullable=False, comment="what the engine is, JSON object"),
    Column("pinning", Text, nullable=False, comment="what the worker was really given, JSON object"),
    Column("started_at", Text, nullable=False),
    Column("seconds", Float, nullable=False, comment="wall seconds the start took"),
)

outcomes = Table(
    "asd_outcomes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", Text, nullable=False),
    Column("config_key", Text, nullable=False, comment="Cell.key"),
    Column("trial_number", Integer, nullable=False),
    Column("cell", Text, nullable=False, comment="Cell.to_json()"),
    Column("state", Text, nullable=False, comment="complete, infeasible or failed"),
    Column("reason", Text, nullable=False),
    Column("objectives", Text, nullable=False, comment="JSON list: gain in per cent, accuracy change in points"),
    Column("measurement", Text, nullable=False, comment="JSON object"),
    Column("recorded_at", Text, nullable=False),
    UniqueConstraint("study", "config_key"),
    UniqueConstraint("study", "trial_number"),
)

events = Table(
    "asd_events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("detail", Text, nullable=False, comment="JSON object"),
    Column("at", Text, nullable=False),
    Index(None, "study", "kind"),
)

confirmations = Table(
    "asd_confirmations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", Text, nullable=False),
    Column("plan_digest", Text, nullable=False),
    Column("slice", Text, nullable=False, comment="confirm or holdout"),
    Column("slice_digest", Text, nullable=False),
    Column("subject", Text, nullable=False, comment="the target and its drafter, for which the prompts are spent"),
    Column("prompt_ids", Text, nullable=False, comment="JSON list of problem ids"),
    Column("trial", Integer, nullable=False),
    Column("cell", Text, nullable=False, comment="Cell.to_json()"),
    Column("config_key", Text, nullable=False, comment="Cell.key"),
    Column("spent_at", Text, nullable=False),
    Column("ended_at", Text, comment="null: not measured to its end yet"),
    Column("measurement", Text, comment="JSON object; null: not measured to its end yet"),
    UniqueConstraint("study", "slice"),
    Index(None, "plan_digest", "slice"),
    Index(None, "subject"),
)

artifacts = Table(
    "asd_artifacts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("artifact_id", Text, nullable=False, comment="SHA-256 of the payload, 64 hex digits"),
    Column("study", Text, nullable=False),
    Column("trial", Integer, nullable=False),
    Column("lineage", Text, nullable=False),
    Column("serial", Integer, nullable=False),
    Column("supersedes", Text, nullable=False, comment="artifact_id, or empty"),
    Column("created_at", Text, nullable=False),
    Column("payload", Text, nullable=False, comment="the signed statement"),
    Column("folder", Text, nullable=False, comment="where it was written; empty for an unsigned statement"),
    Column("signer", Text, nullable=False, comment="fingerprint of the key, or empty"),
    UniqueConstraint("artifact_id"),
    UniqueConstraint("lineage", "serial"),
)


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Alembic's ``include_name``: our migrations see no table but ours, so they can never drop one of Optuna's."""
    return kind != "table" or (name is not None and name.startswith(PREFIX))
