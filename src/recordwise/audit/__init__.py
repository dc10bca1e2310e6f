"""Audits: what a protocol really gives away, and whether a pipeline has the sensitivity it declares.

`replay` and `command` load the whole pipeline, so they are imported from their own modules.
"""

from recordwise.audit.audit import audit
from recordwise.audit.result import AuditResult, Finding

__all__ = ["AuditResult", "Finding", "audit"]
