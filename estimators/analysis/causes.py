"""The hidden causes that a model supports, as JSON objects."""

from __future__ import annotations

from typing import Any

from calmstream.estimators.cause import Cause
from calmstream.estimators.domain import Domain
from calmstream.estimators.methods.base import HiddenCauses, Model


def causes(domain: Domain, model: Model) -> list[dict[str, Any]]:
    """Return the causes of a model, most evidence first; none of a model without `HiddenCauses`."""
    known = model.causes() if isinstance(model, HiddenCauses) else ()
    return [_document(domain, one) for one in known]


def _document(domain: Domain, cause: Cause) -> dict[str, Any]:
    labels = [
        {
            "attribute": domain.names[one.attribute],
            "label": domain.attributes[one.attribute].labels[one.code],
            "without": one.without,
            "within": one.within,
            "stderr": one.stderr,
        }
        for one in cause.shifts
    ]
    return {
        "share": cause.share,
        "stderr": cause.stderr,
        "agreement": cause.agreement,
        "labels": labels,
    }
