"""The first tables: studies, legs, engine starts, outcomes, events.

There is no way back on purpose: a database is never taken to an older schema.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _integer(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=nullable)


def _number(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float(), nullable=False)


def upgrade() -> None:
    """From no table of ours to the first five."""
    op.create_table(
        "asd_studies",
        *map(_text, ("name", "spec", "plan_digest", "source", "slices", "state", "clock")),
        *map(_text, ("asd_sweep_version", "created_at", "updated_at")),
        sa.PrimaryKeyConstraint("name", name="pk_asd_studies"),
    )
    op.create_table(
        "asd_legs",
        *(_integer("id"), _text("study"), _text("leg_key"), _integer("trial", nullable=True)),
        *(_integer("draft_length"), _text("purpose"), _text("role"), _integer("slot")),
        *(_text("engine_id"), _text("worker"), _text("token_hash")),
        *(_number("wall_seconds"), _number("cpu_seconds"), _text("summary")),
        *(_text("payload_path", nullable=True), _text("payload_sha256", nullable=True), _text("recorded_at")),
        sa.PrimaryKeyConstraint("id", name="pk_asd_legs"),
        sa.UniqueConstraint("study", "leg_key", name="uq_asd_legs_study_leg_key"),
    )
    op.create_index("ix_asd_legs_study_trial", "asd_legs", ["study", "trial"])
    op.create_index("ix_asd_legs_study_draft_length_purpose", "asd_legs", ["study", "draft_length", "purpose"])
    op.create_table(
        "asd_engine_starts",
        *(_integer("id"), _text("study"), _text("engine_id"), _text("worker"), _integer("draft_length")),
        *(_text("facts"), _text("pinning"), _text("started_at"), _number("seconds")),
        sa.PrimaryKeyConstraint("id", name="pk_asd_engine_starts"),
    )
    op.create_index("ix_asd_engine_starts_study", "asd_engine_starts", ["study"])
    op.create_table(
        "asd_outcomes",
        *(_integer("id"), _text("study"), _text("config_key"), _integer("trial_number"), _text("cell")),
        *map(_text, ("state", "reason", "objectives", "measurement", "recorded_at")),
        sa.PrimaryKeyConstraint("id", name="pk_asd_outcomes"),
        sa.UniqueConstraint("study", "config_key", name="uq_asd_outcomes_study_config_key"),
        sa.UniqueConstraint("study", "trial_number", name="uq_asd_outcomes_study_trial_number"),
    )
    op.create_table(
        "asd_events",
        *(_integer("id"), _text("study"), _text("kind"), _text("detail"), _text("at")),
        sa.PrimaryKeyConstraint("id", name="pk_asd_events"),
    )
    op.create_index("ix_asd_events_study_kind", "asd_events", ["study", "kind"])
