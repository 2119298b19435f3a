"""The two statements and all they are made of, under one roof for those who write or read them."""

from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.evidence import GAIN_NOT_SHOWN, MARGIN_NOT_SHOWN, TOO_FEW_PROMPTS
from sweeper.artifact.fields import decimal_text, moment, time_text
from sweeper.artifact.frozen_controls import PROTOCOL, FrozenControls, FrozenEvidence
from sweeper.artifact.quality_audit import NON_INFERIOR, NOT_SHOWN, QualityAudit
from sweeper.artifact.statement import (
    FROZEN_CONTROLS,
    PREDICATES_BASE,
    QUALITY_AUDIT,
    STATEMENT_TYPE,
    SUBJECT,
    artifact_id,
)
from sweeper.artifact.values import LEVEL, RULE, ArtifactControls, Estimate, Share, SliceRef, StudyRef, Workload

__all__ = [
    "BINDINGS",
    "FROZEN_CONTROLS",
    "GAIN_NOT_SHOWN",
    "LEVEL",
    "MARGIN_NOT_SHOWN",
    "NON_INFERIOR",
    "NOT_SHOWN",
    "PREDICATES_BASE",
    "PROTOCOL",
    "QUALITY_AUDIT",
    "RULE",
    "STATEMENT_TYPE",
    "SUBJECT",
    "TOO_FEW_PROMPTS",
    "ArtifactControls",
    "Estimate",
    "FrozenControls",
    "FrozenEvidence",
    "QualityAudit",
    "Share",
    "SliceRef",
    "StudyRef",
    "Workload",
    "artifact_id",
    "decimal_text",
    "moment",
    "time_text",
]
