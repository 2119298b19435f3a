"""What freezing keeps: legs of set-aside slices, the cell each slice was spent on, and the artifacts that were made."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _integer(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def upgrade() -> None:
    """Legs that are there already belong to the search."""
    op.add_column("asd_legs", sa.Column("stage", sa.Text(), nullable=False, server_default="study"))
    op.create_table(
        "asd_confirmations",
        *(_integer("id"), _text("study"), _text("plan_digest"), _text("slice"), _text("slice_digest")),
        *(_text("subject"), _text("prompt_ids"), _integer("trial"), _text("cell"), _text("config_key")),
        *(_text("spent_at"), _text("ended_at", nullable=True), _text("measurement", nullable=True)),
        sa.PrimaryKeyConstraint("id", name="pk_asd_confirmations"),
        sa.UniqueConstraint("study", "slice", name="uq_asd_confirmations_study_slice"),
    )
    op.create_index("ix_asd_confirmations_plan_digest_slice", "asd_confirmations", ["plan_digest", "slice"])
    op.create_index("ix_asd_confirmations_subject", "asd_confirmations", ["subject"])
    op.create_table(
        "asd_artifacts",
        *(_integer("id"), _text("artifact_id"), _text("study"), _integer("trial"), _text("lineage")),
        *(_integer("serial"), _text("supersedes"), _text("created_at"), _text("payload")),
        *(_text("folder"), _text("signer")),
        sa.PrimaryKeyConstraint("id", name="pk_asd_artifacts"),
        sa.UniqueConstraint("artifact_id", name="uq_asd_artifacts_artifact_id"),
        sa.UniqueConstraint("lineage", "serial", name="uq_asd_artifacts_lineage_serial"),
    )
